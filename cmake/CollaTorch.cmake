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
