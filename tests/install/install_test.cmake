# Contract: a program outside of Colla's tree builds against an installed Colla with nothing but
# find_package(colla), and runs under the installed `colla run`.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed (${result}):\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
# Moved, so that no path of the place where it was installed may have got into it.
file(RENAME ${WORK}/installed ${WORK}/prefix)

run(${CMAKE_COMMAND} -S ${EXAMPLE} -B ${WORK}/build -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER}
  -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)

run(${WORK}/prefix/bin/colla run -np 2 -- ${WORK}/build/average)
foreach(line "rank 0 of 2: 0.5" "rank 1 of 2: 0.5")
  if(NOT output MATCHES "${line}")
    message(FATAL_ERROR "\"${line}\" is missing from the output of colla run:\n${output}")
  endif()
endforeach()
