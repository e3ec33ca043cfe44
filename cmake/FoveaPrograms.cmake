# Programs and tests share one precompiled header of LibTorch, and their own code, which has no hot loop, is not optimised:
# both halve its compile time.
file(WRITE ${PROJECT_BINARY_DIR}/generated/program_header.cpp "int main() {}  // carries the programs' precompiled header\n")
set(FOVEA_PROGRAM_PCH ${FOVEA_MODULE_PCH})
if(FOVEA_BUILD_TESTS)
  find_package(GTest REQUIRED)
  list(APPEND FOVEA_PROGRAM_PCH <gtest/gtest.h>)
endif()

function(fovea_program_options target)
  target_compile_options(${target} PRIVATE ${FOVEA_WARNINGS} -O0)
  target_link_libraries(${target} PRIVATE fovea)
  target_include_directories(${target} BEFORE PRIVATE ${FOVEA_LEAN})
  if(FOVEA_BUILD_TESTS)  # the header is good for the same options only
    target_compile_options(${target} PRIVATE $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>)
  endif()
endfunction()

add_executable(program_header EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/generated/program_header.cpp)
set_target_properties(program_header PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/CMakeFiles)
fovea_program_options(program_header)
target_precompile_headers(program_header PRIVATE ${FOVEA_PROGRAM_PCH})

function(fovea_program target)
  add_executable(${target} ${ARGN})
  fovea_program_options(${target})
  target_precompile_headers(${target} REUSE_FROM program_header)
endfunction()

# A program whose own code has hot loops: compiled as the library is, whose precompiled header it shares.
function(fovea_fast_program target)
  add_executable(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  fovea_compile(${target})
  target_compile_options(${target} PRIVATE -fPIC)
  target_include_directories(${target} BEFORE PRIVATE ${FOVEA_LEAN})
  target_link_libraries(${target} PRIVATE fovea ${FOVEA_GOMP})
  target_precompile_headers(${target} REUSE_FROM fovea)
endfunction()
