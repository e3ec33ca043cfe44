# Files that the library carries inside itself, as a generated header of string views: web/viewer/viewer.css becomes
# fovea::kViewerCss. An edited file is embedded again by the next build.
#
#   fovea_embed(fovea/view/viewer_files.h web/viewer/viewer.html web/viewer/viewer.css web/viewer/record.js
#               web/viewer/colour.js web/viewer/picture.js web/viewer/viewer.js)
function(fovea_embed header)
  set(constants "")
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${file})
    file(READ ${PROJECT_SOURCE_DIR}/${file} content)
    get_filename_component(name ${file} NAME)
    set(constant k)
    string(REGEX MATCHALL "[a-z0-9]+" words ${name})
    foreach(word ${words})
      string(SUBSTRING ${word} 0 1 first)
      string(TOUPPER ${first} first)
      string(SUBSTRING ${word} 1 -1 rest)
      string(APPEND constant ${first}${rest})
    endforeach()
    string(APPEND constants "inline constexpr std::string_view ${constant} = R\"fovea(${content})fovea\";\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${header} @ONLY CONTENT
"// Generated from: @ARGN@.
#pragma once
#include <string_view>
namespace fovea {
@constants@}  // namespace fovea
")
endfunction()
