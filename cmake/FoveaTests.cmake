# Tests stand beside what they test (x_test.cpp); what crosses rooms is in tests/. A few binaries, so that linking and
# start-up stay short.
enable_testing()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_custom_target(test_programs)  # tests and fuzz programs: what the sanitizers are for

function(fovea_test name)
  target_compile_definitions(${name} PRIVATE FOVEA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" FOVEA_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE nlohmann_json::nlohmann_json GTest::gtest GTest::gtest_main)
  fovea_unity(${name})
  add_dependencies(test_programs ${name})
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# name:room:room … — one binary for the tests of these rooms.
foreach(group light:base:text:kernels tensor:io:data:masks:scores:ops layer:positions:layers:attention:blocks:channel
              model:models:heads:loss:generate train:train:view crossing)
  string(REPLACE ":" ";" rooms ${group})
  list(POP_FRONT rooms name)
  set(files "")
  foreach(room ${rooms})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fovea/${room}/*_test.cpp)
    list(APPEND files ${found})
  endforeach()
  if(name STREQUAL "light")
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fovea/io/*_test.cpp)
    list(FILTER found INCLUDE REGEX ${FOVEA_LIGHT})
    list(APPEND files ${found})
  elseif(name STREQUAL "tensor")
    list(FILTER files EXCLUDE REGEX ${FOVEA_LIGHT})
  elseif(name STREQUAL "crossing")
    file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/conformance/*_test.cpp ${PROJECT_SOURCE_DIR}/tests/*_test.cpp)
  endif()
  if(NOT files)
    continue()
  endif()
  if(name STREQUAL "light")
    add_executable(light_test ${files})  # without LibTorch, so that valgrind can run it
    target_compile_options(light_test PRIVATE ${FOVEA_WARNINGS} -O0)
    target_link_libraries(light_test PRIVATE fovea_light)
  else()
    fovea_program(${name}_test ${files})
  endif()
  fovea_test(${name}_test)
endforeach()

# All fuzz targets are one program.
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*.cpp)
fovea_program(fuzz ${fuzz_sources})
fovea_unity(fuzz)
add_dependencies(test_programs fuzz)

# What the Python tests in tests/parity run; not a test by itself.
fovea_program(parity ${PROJECT_SOURCE_DIR}/tests/parity/parity_main.cpp)
