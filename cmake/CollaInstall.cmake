# `./colla install` and `cmake --install`: the public headers, the libraries behind them and a package
# config, so that find_package(colla) gives the target colla::colla, and with COMPONENTS train also
# colla::train. (The commands are installed by src/cli and bench.)
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/colla)

# What a program links to.
add_library(colla_library INTERFACE)
add_library(colla::colla ALIAS colla_library)
set_target_properties(colla_library PROPERTIES EXPORT_NAME colla)
target_compile_features(colla_library INTERFACE cxx_std_20)

set(libraries)
set(packages)
foreach(folder IN LISTS COLLA_LIBRARY_FOLDERS)
  if(NOT TARGET colla_${folder})
    continue()
  endif()
  list(APPEND libraries colla_${folder})
  target_link_libraries(colla_library INTERFACE colla_${folder})
  # Package::target is found by find_package(Package).
  get_target_property(links colla_${folder} INTERFACE_LINK_LIBRARIES)
  foreach(link IN LISTS links)
    if(link MATCHES "([A-Za-z0-9_]+)::")
      list(APPEND packages ${CMAKE_MATCH_1})
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES packages)
list(TRANSFORM packages PREPEND "find_dependency(" OUTPUT_VARIABLE COLLA_DEPENDENCIES)
list(TRANSFORM COLLA_DEPENDENCIES APPEND ")")
list(JOIN COLLA_DEPENDENCIES "\n" COLLA_DEPENDENCIES)

install(TARGETS colla_library ${libraries} EXPORT colla ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/colla DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT colla NAMESPACE colla:: FILE collaTargets.cmake DESTINATION ${package})
if(COLLA_TORCH)
  set_target_properties(colla_torch PROPERTIES EXPORT_NAME torch)
  target_compile_features(colla_train INTERFACE cxx_std_20)
  install(TARGETS colla_train colla_torch EXPORT collaTrain
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT collaTrain NAMESPACE colla:: FILE collaTrainTargets.cmake DESTINATION ${package})
  list(APPEND libraries colla_train)
  set(programs colla_cli_train)
  if(COLLA_BENCH)
    list(APPEND programs colla_bench_train)
  endif()
endif()
# Builds all that is installed, and nothing else.
add_custom_target(colla_package)
foreach(target IN LISTS libraries programs ITEMS colla_cli)
  add_dependencies(colla_package ${target})
  set_property(TARGET colla_package APPEND PROPERTY COLLA_FILES $<TARGET_FILE:${target}>)
endforeach()
configure_package_config_file(cmake/collaConfig.cmake.in ${PROJECT_BINARY_DIR}/collaConfig.cmake
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/collaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/collaConfig.cmake ${PROJECT_BINARY_DIR}/collaConfigVersion.cmake
  DESTINATION ${package})
