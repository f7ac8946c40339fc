# One library per folder under src/, and includes that go one way.
#
# colla_folder(NAME SOURCES a.cc … [USES folder …] [LINKS target …]) makes the library
# colla_NAME. Its headers are included as "NAME/file.h", which resolves only through the
# folders it USES, and a folder may use only those that CMakeLists.txt lists before it:
# an include that goes upwards does not build, a USES that goes upwards does not configure.
# NAME may be a subfolder, such as models/kernels: then the library is colla_models_kernels.
function(colla_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINKS" ${ARGN})
  string(REPLACE / _ library ${name})
  set(root ${PROJECT_BINARY_DIR}/include/${library})
  get_filename_component(above ${root}/${name} DIRECTORY)
  file(MAKE_DIRECTORY ${above})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${root}/${name} SYMBOLIC)

  add_library(colla_${library} STATIC ${ARG_SOURCES})
  add_library(colla::${library} ALIAS colla_${library})
  target_include_directories(colla_${library} PUBLIC
    $<BUILD_INTERFACE:${root}>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  foreach(folder IN LISTS ARG_USES)
    # CMake itself would accept a target that is defined later, and cycles of static libraries.
    string(REPLACE / _ used ${folder})
    if(NOT TARGET colla_${used})
      message(FATAL_ERROR "src/${name} uses ${folder}, which is not one of the folders below it: "
        "COLLA_FOLDERS in CMakeLists.txt has the order")
    endif()
    target_link_libraries(colla_${library} PUBLIC colla_${used})
  endforeach()
  target_link_libraries(colla_${library} PUBLIC ${ARG_LINKS})
  set_target_properties(colla_${library} PROPERTIES EXPORT_NAME ${library})
  colla_options(colla_${library})
endfunction()

# Warnings, floating-point rules and sanitizers that all of our code is built with.
function(colla_options target)
  # No contraction: a fused multiply-add rounds once where two operations round twice, and
  # which of the two a compiler picks would depend on an element's place in a loop.
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE -Wthread-safety)
  endif()
  if(COLLA_FUZZ)
    set(COLLA_SANITIZE fuzzer-no-link,address,undefined)
  endif()
  if(COLLA_SANITIZE)
    # The check of dynamic types opens a pipe: it can't work where a test takes all descriptors.
    target_compile_options(${target} PRIVATE -fsanitize=${COLLA_SANITIZE} -fno-sanitize=vptr
      -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${COLLA_SANITIZE})
  endif()
endfunction()
