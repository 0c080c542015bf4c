# Fails when one of OBJECTS defines a weak symbol: the linker would keep one copy of it for all instruction sets.
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} -C ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" weak "${symbols}")
  if(weak)
    list(JOIN weak "\n" weak)
    message(FATAL_ERROR "weak symbols in ${object}:\n${weak}")
  endif()
endforeach()
