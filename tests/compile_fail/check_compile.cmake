# Compiles SOURCE without output. EXPECT empty: it must compile. Otherwise it must fail with a diagnostic that
# matches EXPECT.
set(ENV{LC_ALL} C)
set(flags -std=c++20 -fsyntax-only -Werror=unused-result)
foreach(dir IN LISTS INCLUDES)
  if(dir)
    list(APPEND flags -I${dir})
  endif()
endforeach()
execute_process(
  COMMAND ${COMPILER} ${flags} ${SOURCE}
  RESULT_VARIABLE status
  OUTPUT_VARIABLE diagnostic
  ERROR_VARIABLE diagnostic)

if(EXPECT STREQUAL "")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "must compile, but does not:\n${diagnostic}")
  endif()
elseif(status EQUAL 0)
  message(FATAL_ERROR "must not compile, but does: ${SOURCE}")
elseif(NOT diagnostic MATCHES "${EXPECT}")
  message(FATAL_ERROR "fails with another diagnostic than /${EXPECT}/:\n${diagnostic}")
endif()
