# The library: one shared object from all rooms, in three groups by what their headers cost the compiler.
#
#   light    base, text, kernels, text files of io     no LibTorch
#   tensor   io … ops                                  ATen
#   module   positions … view                          torch::nn
#
# A precompiled header with more than a file needs is not free: each file pays for the templates it holds (ATen 2 s,
# torch/nn/module.h 6 s, of which cmake/lean saves 3, nlohmann/json.hpp another 5 s), so JSON stays out and torch/torch.h
# too.
set(FOVEA_WARNINGS -Wall -Wextra -Wno-missing-field-initializers)
if(PROJECT_IS_TOP_LEVEL)
  list(APPEND FOVEA_WARNINGS -Werror)  # a later compiler's new warning must not stop a project that embeds fovea
endif()
set(FOVEA_TENSOR_PCH <ATen/ATen.h>)
set(FOVEA_LEAN ${PROJECT_SOURCE_DIR}/cmake/lean)
set(FOVEA_MODULE_PCH <ATen/ATen.h> <torch/nn/module.h> <torch/nn/modules/linear.h> <torch/nn/modules/container/modulelist.h>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(-fpch-preprocess)  # without it ccache expands the precompiled header and compiles all of it
  add_compile_options(--param=ggc-min-heapsize=1000000)  # kB before the compiler collects garbage: a tenth of its time
endif()

set(registry_sources "")
foreach(room masks scores positions channel models)
  fovea_registry(${room} fovea/${room} registry_sources)
endforeach()
fovea_registry(variants fovea/attention/variants registry_sources)
include(FoveaEmbed)
fovea_embed(fovea/view/viewer_files.h web/viewer/viewer.html web/viewer/viewer.css web/viewer/record.js web/viewer/colour.js web/viewer/picture.js
            web/viewer/viewer.js)

file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fovea/*.cpp)
list(APPEND sources ${registry_sources})
list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")

set(FOVEA_LIGHT "/fovea/((base|text|kernels)/|io/(files|json|toml)[._])")
set(FOVEA_TENSOR_ROOMS "/fovea/(io|data|masks|scores|ops)/")
set(light_sources ${sources})
list(FILTER light_sources INCLUDE REGEX ${FOVEA_LIGHT})
set(tensor_sources ${sources})
list(FILTER tensor_sources INCLUDE REGEX ${FOVEA_TENSOR_ROOMS})
list(FILTER tensor_sources EXCLUDE REGEX ${FOVEA_LIGHT})
set(module_sources ${sources})
list(FILTER module_sources EXCLUDE REGEX "${FOVEA_LIGHT}|${FOVEA_TENSOR_ROOMS}")

function(fovea_compile target)
  target_compile_options(${target} PRIVATE ${FOVEA_WARNINGS} -fopenmp)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated ${FOVEA_TOMLPP_INCLUDE})
  target_link_libraries(${target} PRIVATE nlohmann_json::nlohmann_json PkgConfig::utf8proc PkgConfig::pcre2)
endfunction()

# Files of one room are compiled together, up to sixteen at a time, small rooms of a target with each other: the headers' price
# (3 s for torch/nn/module.h's templates, precompiled or not) is paid once for all of them, and a fresh build takes a third of
# the time. Names in a file's anonymous namespace must differ within its room, and among the rooms named here.
option(FOVEA_UNITY "Compile the files of a room together" ON)
set(FOVEA_TOGETHER positions layers heads channel attention variants blocks loss)
function(fovea_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FOVEA_UNITY} UNITY_BUILD_MODE GROUP)
  get_target_property(files ${target} SOURCES)
  foreach(file ${files})
    if(file MATCHES "/([a-z]+)/[a-z0-9_]+\\.cpp$")
      set(room ${CMAKE_MATCH_1})
      if(room IN_LIST FOVEA_TOGETHER)
        set(room small_rooms)
      endif()
      math(EXPR batch "0${count_${room}} / 16")
      math(EXPR count_${room} "0${count_${room}} + 1")
      set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${room}_${batch})
    endif()
  endforeach()
endfunction()

# kernels/isa: a file's first line names its flags; what another processor cannot run is left out.
set(isa_sources ${light_sources})
list(FILTER isa_sources INCLUDE REGEX "/kernels/isa/")
foreach(source ${isa_sources})
  file(STRINGS ${source} flags LIMIT_COUNT 1)
  string(REGEX REPLACE "^// flags: *" "" flags "${flags}")
  if(flags AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(REMOVE_ITEM light_sources ${source})
  endif()
  separate_arguments(flags)
  # No symbol may be shared with a file that was compiled for another processor: hence no -fgnu-unique, and no inlined header.
  list(APPEND flags -O3 -ffp-contract=fast -Wno-ignored-attributes -Wno-psabi)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND flags -fno-gnu-unique -Wno-uninitialized -Wno-maybe-uninitialized)  # GCC 12's own AVX-512 header
  endif()
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}" SKIP_UNITY_BUILD_INCLUSION ON)
endforeach()

add_library(fovea_light OBJECT ${light_sources})
fovea_compile(fovea_light)
target_include_directories(fovea_light INTERFACE ${PROJECT_SOURCE_DIR})
add_library(fovea_tensor OBJECT ${tensor_sources})
fovea_compile(fovea_tensor)
# Score biases are loops over a tile's rows, whose lengths vary.
target_compile_options(fovea_tensor PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fvect-cost-model=dynamic>)
target_link_libraries(fovea_tensor PRIVATE torch PNG::PNG JPEG::JPEG)
target_precompile_headers(fovea_tensor PRIVATE ${FOVEA_TENSOR_PCH})
fovea_unity(fovea_light)
fovea_unity(fovea_tensor)

# No -ffast-math anywhere: NaN and infinity carry meaning here.
add_library(fovea SHARED ${module_sources} $<TARGET_OBJECTS:fovea_light> $<TARGET_OBJECTS:fovea_tensor>)
add_library(fovea::fovea ALIAS fovea)
fovea_compile(fovea)
target_include_directories(fovea PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
                                        $<INSTALL_INTERFACE:include>)
target_compile_features(fovea PUBLIC cxx_std_20)
target_link_libraries(fovea PUBLIC torch nlohmann_json::nlohmann_json PRIVATE ${FOVEA_GOMP} PNG::PNG JPEG::JPEG)
target_include_directories(fovea BEFORE PRIVATE ${FOVEA_LEAN})
target_precompile_headers(fovea PRIVATE ${FOVEA_MODULE_PCH})
fovea_unity(fovea)
set_target_properties(fovea PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 DEFINE_SYMBOL "")
