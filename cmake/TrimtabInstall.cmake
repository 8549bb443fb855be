# Install rules and the exported package: find_package(trimtab), target trimtab::trimtab.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(trimtab PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  DEFINE_SYMBOL "")  # static and shared objects are the same, so ccache compiles them once

install(TARGETS trimtab EXPORT trimtabTargets)
install(DIRECTORY include/trimtab TYPE INCLUDE FILES_MATCHING PATTERN "*.hpp")
install(FILES LICENSE NOTICE TYPE DOC)
if(TARGET trimtab_cli)
  set_target_properties(trimtab_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS trimtab_cli)
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/trimtab)
install(EXPORT trimtabTargets NAMESPACE trimtab:: DESTINATION ${package_folder})

if(NOT DEFINED BUILD_SHARED_LIBS)
  set(BUILD_SHARED_LIBS OFF)
endif()
configure_package_config_file(
  cmake/trimtabConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/trimtabConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/trimtabConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${CMAKE_CURRENT_BINARY_DIR}/trimtabConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/trimtabConfigVersion.cmake
  DESTINATION ${package_folder})
install(FILES cmake/FindUCX.cmake DESTINATION ${package_folder})
