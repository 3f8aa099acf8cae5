# find_package(tptrace [COMPONENTS shared|static|loader]) gives
#   tptrace::tptrace   the shared library and its headers
#   tptrace::static    the static library and its headers
#   tptrace::loader    the headers alone: tracer_loader.h finds the library when the program runs, or does without
# The package may be moved as a whole: nothing here is absolute.
cmake_minimum_required(VERSION 3.15)

# PREFIX/share/cmake/tptrace
get_filename_component(_tptrace_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_tptrace_include "${_tptrace_prefix}/include/tptrace")
# Distributions differ in where libraries go.
file(GLOB _tptrace_shared "${_tptrace_prefix}/lib/libtptrace.so" "${_tptrace_prefix}/lib64/libtptrace.so"
     "${_tptrace_prefix}/lib/*-linux-gnu/libtptrace.so")
file(GLOB _tptrace_static "${_tptrace_prefix}/lib/libtptrace.a" "${_tptrace_prefix}/lib64/libtptrace.a"
     "${_tptrace_prefix}/lib/*-linux-gnu/libtptrace.a")

if(_tptrace_shared AND NOT TARGET tptrace::tptrace)
  list(GET _tptrace_shared 0 _tptrace_shared)
  add_library(tptrace::tptrace SHARED IMPORTED)
  set_target_properties(tptrace::tptrace PROPERTIES
    IMPORTED_LOCATION "${_tptrace_shared}"
    IMPORTED_SONAME "libtptrace.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_tptrace_include}")
endif()
if(_tptrace_static AND NOT TARGET tptrace::static)
  list(GET _tptrace_static 0 _tptrace_static)
  add_library(tptrace::static STATIC IMPORTED)
  set_target_properties(tptrace::static PROPERTIES
    IMPORTED_LOCATION "${_tptrace_static}"
    IMPORTED_LINK_INTERFACE_LANGUAGES "C"
    INTERFACE_INCLUDE_DIRECTORIES "${_tptrace_include}"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m")
endif()
if(NOT TARGET tptrace::loader)
  add_library(tptrace::loader INTERFACE IMPORTED)
  set_target_properties(tptrace::loader PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_tptrace_include}"
    INTERFACE_LINK_LIBRARIES "dl")
endif()

set(tptrace_loader_FOUND TRUE)
if(TARGET tptrace::tptrace)
  set(tptrace_shared_FOUND TRUE)
endif()
if(TARGET tptrace::static)
  set(tptrace_static_FOUND TRUE)
endif()
foreach(_tptrace_component IN LISTS tptrace_FIND_COMPONENTS)
  if(tptrace_FIND_REQUIRED_${_tptrace_component} AND NOT tptrace_${_tptrace_component}_FOUND)
    set(tptrace_FOUND FALSE)
    set(tptrace_NOT_FOUND_MESSAGE "no ${_tptrace_component} library of tptrace under ${_tptrace_prefix}")
  endif()
endforeach()
unset(_tptrace_prefix)
unset(_tptrace_include)
unset(_tptrace_shared)
unset(_tptrace_static)
