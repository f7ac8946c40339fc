# Torch_DIR, where the user has not set it: of the torch that this Python has. COLLA_TORCH=AUTO becomes
# ON or OFF.
#
# pip builds in an environment of its own that has no torch. `-E` leaves that environment, so the one
# that is found is the one that the extension will run with.
if(COLLA_TORCH STREQUAL "AUTO")
  unset(Torch_DIR CACHE)  # A Python that was here before may have had torch.
endif()
if(COLLA_TORCH AND NOT Torch_DIR)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -E -c
      "import importlib.util as u; spec = u.find_spec('torch'); print(spec.submodule_search_locations[0] if spec else '')"
    OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(torch)
    set(Torch_DIR ${torch}/share/cmake/Torch)
  elseif(NOT COLLA_TORCH STREQUAL "AUTO")
    message(FATAL_ERROR "${Python_EXECUTABLE} has no torch: install it first, with "
      "pip install torch==2.13.0 (a CPU wheel is enough)")
  endif()
endif()
if(COLLA_TORCH STREQUAL "AUTO")
  if(Torch_DIR)
    set(COLLA_TORCH ON)
  else()
    message(STATUS "${Python_EXECUTABLE} has no torch: what needs it is left out")
    set(COLLA_TORCH OFF)
  endif()
endif()
