# Contract: `./colla install` installs all of Colla, building what that takes and no test, and
# `cmake --install` all or nothing. Programs outside of Colla's tree build against an installed Colla with
# nothing but find_package(colla), and run: under the installed `colla run`, or with workers of their own.
#
# clone_test.sh does the same from nothing, in a clean clone.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed (${result}):\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

# build(NAME CMAKE-ARG…): examples/NAME in ${WORK}/NAME.
function(build name)
  run(${CMAKE_COMMAND} -S ${EXAMPLES}/${name} -B ${WORK}/${name} -G Ninja
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix ${ARGN})
  run(${CMAKE_COMMAND} --build ${WORK}/${name})
endfunction()

function(expect text)
  if(NOT output MATCHES "${text}")
    message(FATAL_ERROR "\"${text}\" is missing from:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
if(BUILD STREQUAL ${ROOT}/build AND EXISTS ${ROOT}/.venv/.ready)
  run(${ROOT}/colla install --prefix ${WORK}/installed)
else()  # A tree that ./colla has not made.
  run(${CMAKE_COMMAND} --build ${BUILD} --target colla_package)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
endif()

# What ./colla install builds is what it installs: every library and program, and no test.
run(ninja -C ${BUILD} -t commands colla_package)
file(GLOB_RECURSE installed RELATIVE ${WORK}/installed ${WORK}/installed/bin/* ${WORK}/installed/*.a)
foreach(file IN LISTS installed)
  get_filename_component(name ${file} NAME)
  if(NOT output MATCHES "(qc|-o) [^ ]*/${name} ")
    message(FATAL_ERROR "${file} is installed, but the target colla_package does not build it")
  endif()
endforeach()
if(NOT installed MATCHES "libcolla_named.a" OR output MATCHES "[ /]tests/")
  message(FATAL_ERROR "installed were ${installed}, and colla_package builds tests, or too little")
endif()

# A tree with one library too few, as `./colla demo` leaves it: nothing is installed, with the reason.
file(READ ${BUILD}/cmake_install.cmake script)
string(REPLACE libcolla_named.a libcolla_missing.a script "${script}")
file(WRITE ${WORK}/incomplete.cmake "${script}")
execute_process(COMMAND ${CMAKE_COMMAND} -DCMAKE_INSTALL_PREFIX=${WORK}/half -P ${WORK}/incomplete.cmake
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
expect("nothing was installed: [^\n]*/libcolla_missing.a is not built yet; ./colla install --prefix DIR ")
if(result EQUAL 0 OR EXISTS ${WORK}/half)
  message(FATAL_ERROR "exit code ${result} for a tree that is not built, or half of it installed")
endif()

# Moved, so that no path of the place where it was installed may have got into it.
file(RENAME ${WORK}/installed ${WORK}/prefix)

build(average)
run(${WORK}/prefix/bin/colla run -np 2 -- ${WORK}/average/average)
expect("rank 0 of 2: 0.5")
expect("rank 1 of 2: 0.5")

if(TORCH)
  build(net -DTorch_DIR=${Torch_DIR})
  set(flags --steps 5 --slices 2 --threads 1 --seed 3)
  run(${WORK}/net/net ${flags} --checkpoint-dir ${WORK}/single)
  run(${WORK}/net/net ${flags} --checkpoint-dir ${WORK}/two --strategy allreduce --np 2)
  expect("Step 5/5 - 0s - loss: [0-9.]+ - accuracy: [0-9.]+ - val_loss: ")
  run(${WORK}/prefix/bin/colla compare ${WORK}/single ${WORK}/two)
  expect("equal: all [0-9]+ tensors have the same bits")

  run(${WORK}/prefix/bin/colla train lr --data synthetic:lr:50x4 --steps 1)
  expect("Step 1/1 - ")
endif()
