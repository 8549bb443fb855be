# Target check_headers: every header of include/ and src/ compiles when it is the first and only include.
# Real compilations, so ccache answers for headers that did not change.

find_package(fmt REQUIRED)

file(GLOB_RECURSE headers CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/*.hpp ${PROJECT_SOURCE_DIR}/src/*.hpp)
set(header_sources)
foreach(header IN LISTS headers)
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${header})
  set(source ${PROJECT_BINARY_DIR}/header_check/${name}.cpp)
  string(REGEX REPLACE "^(include|src)/" "" spelling ${name})
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${spelling}\"\n")
  list(APPEND header_sources ${source})
endforeach()

add_library(check_headers OBJECT EXCLUDE_FROM_ALL ${header_sources})
target_link_libraries(check_headers PRIVATE trimtab trimtab_warnings fmt::fmt)
target_include_directories(check_headers PRIVATE ${PROJECT_SOURCE_DIR}/src)
if(TRIMTAB_HAS_MPI)
  target_link_libraries(check_headers PRIVATE MPI::MPI_CXX)
endif()
if(TRIMTAB_HAS_UCX)
  target_link_libraries(check_headers PRIVATE UCX::ucp)
endif()
