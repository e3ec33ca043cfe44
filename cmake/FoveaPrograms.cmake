# Programs see the library as its users do, through fovea/fovea.h. They share that header precompiled, which brings each file
# from some 20 s to a few; their own code has no hot loop, so it is optimised little.
file(WRITE ${PROJECT_BINARY_DIR}/generated/program_header.cpp "int main() {}  // carries the programs' precompiled header\n")
add_executable(program_header EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/generated/program_header.cpp)
target_compile_options(program_header PRIVATE ${FOVEA_WARNINGS} -O1)
target_link_libraries(program_header PRIVATE fovea)
target_precompile_headers(program_header PRIVATE <ATen/ATen.h> <fovea/fovea.h>)

function(fovea_program target)
  add_executable(${target} ${ARGN})
  target_compile_options(${target} PRIVATE ${FOVEA_WARNINGS} -O1)
  target_link_libraries(${target} PRIVATE fovea)
  target_precompile_headers(${target} REUSE_FROM program_header)
endfunction()
