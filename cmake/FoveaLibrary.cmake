# The library: one shared object from all rooms. Rooms without LibTorch compile without its headers.
set(FOVEA_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers)

set(torch_free_rooms base text kernels)
set(registry_sources "")
foreach(room masks scores positions models)
  fovea_registry(${room} fovea/${room} registry_sources)
endforeach()
fovea_registry(variants fovea/attention/variants registry_sources)

file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fovea/*.cpp)
list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
set(light_sources ${sources})
list(FILTER light_sources INCLUDE REGEX "/fovea/(base|text|kernels)/")
set(torch_sources ${sources})
list(FILTER torch_sources EXCLUDE REGEX "/fovea/(base|text|kernels)/")

add_library(fovea_light OBJECT ${light_sources})
target_compile_options(fovea_light PRIVATE ${FOVEA_WARNINGS})
target_include_directories(fovea_light PRIVATE ${PROJECT_SOURCE_DIR} ${FOVEA_TOMLPP_INCLUDE})
target_link_libraries(fovea_light PRIVATE nlohmann_json::nlohmann_json PkgConfig::utf8proc PkgConfig::pcre2)

add_library(fovea SHARED ${torch_sources} ${registry_sources} $<TARGET_OBJECTS:fovea_light>)
add_library(fovea::fovea ALIAS fovea)
target_compile_options(fovea PRIVATE ${FOVEA_WARNINGS} -fopenmp)
target_include_directories(fovea
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated> $<INSTALL_INTERFACE:include>
  PRIVATE ${FOVEA_TOMLPP_INCLUDE})
target_link_libraries(fovea PUBLIC torch PRIVATE nlohmann_json::nlohmann_json PkgConfig::utf8proc PkgConfig::pcre2 ${FOVEA_GOMP})
# No -ffast-math anywhere: NaN and infinity carry meaning here.
target_precompile_headers(fovea PRIVATE <torch/torch.h>)
set_target_properties(fovea PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
