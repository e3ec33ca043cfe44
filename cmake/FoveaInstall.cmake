# Installing: find_package(fovea) then gives the same fovea::fovea as add_subdirectory. Library and command look for
# LibTorch where it was when they were built; one that has moved is found through LD_LIBRARY_PATH.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(fovea PROPERTIES INSTALL_RPATH ${FOVEA_TORCH_LIB_DIR})
install(TARGETS fovea EXPORT foveaTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET fovea_command)
  set_target_properties(fovea_command PROPERTIES
                        INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${FOVEA_TORCH_LIB_DIR}")
  install(TARGETS fovea_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/fovea DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*_test.h" EXCLUDE)
install(DIRECTORY ${PROJECT_BINARY_DIR}/generated/fovea DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "all.h")

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/fovea)
install(EXPORT foveaTargets NAMESPACE fovea:: DESTINATION ${package})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/foveaConfig.cmake.in ${PROJECT_BINARY_DIR}/foveaConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/foveaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/foveaConfig.cmake ${PROJECT_BINARY_DIR}/foveaConfigVersion.cmake
        DESTINATION ${package})
