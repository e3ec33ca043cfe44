# A registry folder: every .cpp that defines register_<room>_<stem>() is an entry. The calls and the room's umbrella
# header are generated, so adding a file is the whole change.
#
#   fovea_registry(masks fovea/masks OUT)   -> appends the generated source to OUT
function(fovea_registry room folder out)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  string(SUBSTRING ${room} 0 1 first)
  string(TOUPPER ${first} first)
  string(SUBSTRING ${room} 1 -1 rest)
  set(type ${first}${rest}Registry)
  set(declarations "")
  set(calls "")
  set(includes "")
  foreach(source ${sources})
    get_filename_component(stem ${source} NAME_WE)
    file(STRINGS ${source} entry LIMIT_COUNT 1 REGEX "^void register_${room}_${stem}\\(")
    if(entry)
      string(APPEND declarations "void register_${room}_${stem}(${type}&);\n")
      string(APPEND calls "  register_${room}_${stem}(registry);\n")
      if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/${stem}.h)
        string(APPEND includes "#include \"${folder}/${stem}.h\"  // IWYU pragma: export\n")
      endif()
    endif()
  endforeach()
  set(generated ${PROJECT_BINARY_DIR}/generated/${folder})
  file(CONFIGURE OUTPUT ${generated}/register_all.cpp @ONLY CONTENT
"// Generated from the files of ${folder}.
#include \"${folder}/registry.h\"
namespace fovea {
@declarations@
void register_all_${room}(${type}& registry) {
@calls@}
}  // namespace fovea
")
  if(includes)
    file(CONFIGURE OUTPUT ${generated}/all.h @ONLY CONTENT
"// Generated: every entry of ${folder}.
#pragma once
@includes@")
  endif()
  set(${out} ${${out}} ${generated}/register_all.cpp PARENT_SCOPE)
endfunction()
