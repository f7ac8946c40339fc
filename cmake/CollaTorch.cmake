# colla_torch: libtorch as our own code uses it.
#
# libtorch brings headers of libraries that we take from the system (fmt), in other versions. Its
# folders are searched after the system's, so that each of ours is compiled with what it links to.
add_library(colla_torch INTERFACE)
foreach(directory IN LISTS TORCH_INCLUDE_DIRS)
  target_compile_options(colla_torch INTERFACE "$<BUILD_INTERFACE:SHELL:-idirafter ${directory}>")
endforeach()
target_link_libraries(colla_torch INTERFACE
  "$<BUILD_INTERFACE:$<LINK_ONLY:torch>>" "$<INSTALL_INTERFACE:torch>")

# Takes over colla_train's precompiled header, which an executable can only do if it is compiled as
# a library is. (ccache wants the option.)
function(colla_precompiled target)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM colla_train)
endfunction()
