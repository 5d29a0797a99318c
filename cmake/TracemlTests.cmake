# How a test is added: one call in tests/CMakeLists.txt.
#
#   traceml_add_test(<name> SOURCES <file>... LABELS <label>...
#                    [LIBRARIES <target>...] [ENVIRONMENT <VAR=value>...] [TIMEOUT <seconds>] [FAKE_CUDA] [SERIAL])
#     A CMocka program of the core's objects and the sources. FAKE_CUDA links libfakegpu (tests/support/fake_cuda.h) and
#     names the fake runtime in TRACEML_CUDART. SERIAL: nothing runs beside it (it measures time).
#     Exit status 77 is "skipped".
#
#   traceml_add_pytest(<file>... LABELS <label>... [ENVIRONMENT ...] [TIMEOUT <seconds>] [FAKE_CUDA] [SERIAL])
#     One test per file, run by the interpreter that was found. A file that ran no test is "skipped".
#
#   traceml_add_check(<name> LABELS <label>... COMMAND <command>... [ENVIRONMENT ...] [TIMEOUT <seconds>] [FAKE_CUDA]
#                     [SERIAL])
#     Any other program.
#
# Labels: unit threads gpu python fixtures bench.

set(traceml_labels unit threads gpu python fixtures bench)

# Where a sanitizer finds something, the test fails. The interpreter is not built with one: its runtime comes first, and
# leaks are not looked for, which Python leaves at its end on purpose.
set(traceml_test_environment)
set(traceml_pytest_environment)
set(traceml_patience 1) # how many times slower than without
if(TRACEML_SANITIZE MATCHES "address")
    list(APPEND traceml_test_environment
        "ASAN_OPTIONS=detect_stack_use_after_return=1:check_initialization_order=1" "UBSAN_OPTIONS=print_stacktrace=1")
    set(traceml_patience 4)
    set(traceml_asan_name libasan.so)
    if(CMAKE_C_COMPILER_ID MATCHES "Clang")
        set(traceml_asan_name "libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so")
    endif()
    execute_process(COMMAND "${CMAKE_C_COMPILER}" "-print-file-name=${traceml_asan_name}"
        OUTPUT_VARIABLE traceml_asan_runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    list(APPEND traceml_pytest_environment "LD_PRELOAD=${traceml_asan_runtime}"
        "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1"
        "PYTEST_ADDOPTS=--capture=sys") # what it found must not end with the process that pytest captured it in
elseif(TRACEML_SANITIZE MATCHES "thread")
    # Tests fork while threads run: that is their subject.
    set(traceml_patience 4)
    list(APPEND traceml_test_environment "TSAN_OPTIONS=second_deadlock_stack=1:die_after_fork=0")
endif()

# Reads the arguments of a test into arg_*, with a default timeout. ARGN: the keywords for lists that this kind of test
# has beside the common ones.
macro(traceml_parse_test name first default_timeout)
    cmake_parse_arguments(PARSE_ARGV ${first} arg "FAKE_CUDA;SERIAL" "TIMEOUT" "LABELS;ENVIRONMENT;${ARGN}")
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT ${default_timeout})
    endif()
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${traceml_patience}")
    foreach(label IN LISTS arg_LABELS)
        if(NOT label IN_LIST traceml_labels)
            message(FATAL_ERROR "test ${name}: label '${label}' is none of: ${traceml_labels}")
        endif()
    endforeach()
    if(NOT arg_LABELS)
        message(FATAL_ERROR "test ${name}: needs LABELS, one or more of: ${traceml_labels}")
    endif()
endmacro()

# Gives the test what was read.
macro(traceml_set_test name skip_status)
    set(environment ${traceml_test_environment} ${arg_ENVIRONMENT})
    if(arg_FAKE_CUDA)
        list(APPEND environment "TRACEML_CUDART=$<TARGET_FILE:fake_cudart>")
    endif()
    set_tests_properties(${name} PROPERTIES
        LABELS "${arg_LABELS}"
        TIMEOUT "${arg_TIMEOUT}"
        SKIP_RETURN_CODE "${skip_status}"
        ENVIRONMENT "${environment}"
        RUN_SERIAL "${arg_SERIAL}"
    )
endmacro()

function(traceml_add_test name)
    traceml_parse_test(${name} 1 60 SOURCES LIBRARIES)
    if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "test ${name}: needs SOURCES, and knows no ${arg_UNPARSED_ARGUMENTS}")
    endif()
    set(target "test_${name}")
    add_executable(${target} ${arg_SOURCES})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support")
    target_link_libraries(${target} PRIVATE
        traceml_objects traceml_cjson traceml_cmocka ${arg_LIBRARIES} Threads::Threads ${CMAKE_DL_LIBS} m)
    if(arg_FAKE_CUDA)
        target_link_libraries(${target} PRIVATE fakegpu)
        add_dependencies(${target} fake_cudart)
    endif()
    add_test(NAME ${name} COMMAND ${target})
    traceml_set_test(${name} 77)
endfunction()

function(traceml_add_pytest)
    if(NOT TRACEML_BUILD_PYTHON AND NOT TRACEML_TEST_INSTALLED)
        return() # no package to test
    endif()
    list(GET ARGV 0 first)
    traceml_parse_test("${first}" 0 600)
    list(PREPEND arg_ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1" ${traceml_pytest_environment})
    if(NOT TRACEML_TEST_INSTALLED)
        list(APPEND arg_ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/python")
    endif()
    foreach(file IN LISTS arg_UNPARSED_ARGUMENTS)
        if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
            message(FATAL_ERROR "no such test file: ${file}")
        endif()
        get_filename_component(stem "${file}" NAME_WE)
        string(REGEX REPLACE "^test_" "python_" name "${stem}")
        add_test(NAME ${name}
            COMMAND "${Python_EXECUTABLE}" -m pytest -q -p no:cacheprovider "${CMAKE_CURRENT_SOURCE_DIR}/${file}"
            WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
        )
        traceml_set_test(${name} 5) # pytest ends with 5 when it ran no test
    endforeach()
endfunction()

function(traceml_add_check name)
    traceml_parse_test(${name} 1 60 COMMAND)
    add_test(NAME ${name} COMMAND ${arg_COMMAND})
    traceml_set_test(${name} 77)
endfunction()
