# Finds the build's dependencies in the Python environment that runs it: the oneDNN
# and Eigen wheels contain CMake packages, in folders that CMake does not search.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(Threads REQUIRED)

# EA_SITE_PACKAGES: the folders of installed packages. A wheel's data files are
# three folders up (PREFIX/lib/pythonX.Y/site-packages); Eigen's are in the
# subfolder cmeel.prefix.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "
import sys
for entry in sys.path:
    if entry.endswith(('site-packages', 'dist-packages')):
        print(entry)
"
  OUTPUT_VARIABLE EA_SITE_PACKAGES OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" EA_SITE_PACKAGES "${EA_SITE_PACKAGES}")
foreach(site IN LISTS EA_SITE_PACKAGES)
  get_filename_component(prefix ${site}/../../.. ABSOLUTE)
  list(APPEND CMAKE_PREFIX_PATH ${site}/cmeel.prefix ${prefix})
endforeach()

find_package(pybind11 CONFIG QUIET)
if(NOT pybind11_FOUND)
  execute_process(COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
                  OUTPUT_VARIABLE pybind11_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
  find_package(pybind11 CONFIG REQUIRED)
endif()
find_package(Eigen3 CONFIG REQUIRED)
find_package(dnnl CONFIG REQUIRED)

# ea_link_headers(target): replaces its include path by a folder of links in the
# build folder. pip builds in an environment with a new path each time; through the
# links, ccache sees the same relative paths in every build.
function(ea_link_headers target)
  string(MAKE_C_IDENTIFIER ${target} name)
  get_target_property(folder ${target} INTERFACE_INCLUDE_DIRECTORIES)
  set(view ${CMAKE_BINARY_DIR}/headers/${name})
  file(REMOVE_RECURSE ${view})
  file(MAKE_DIRECTORY ${view})
  file(GLOB entries LIST_DIRECTORIES true ${folder}/*)
  foreach(entry IN LISTS entries)
    get_filename_component(file ${entry} NAME)
    file(CREATE_LINK ${entry} ${view}/${file} SYMBOLIC)
  endforeach()
  set_target_properties(${target} PROPERTIES
                        INTERFACE_INCLUDE_DIRECTORIES ${view})
endfunction()
ea_link_headers(pybind11::pybind11_headers)
ea_link_headers(Eigen3::Eigen)
ea_link_headers(DNNL::dnnl)

get_target_property(EA_DNNL_LOCATION DNNL::dnnl IMPORTED_LOCATION_RELEASE)
if(NOT EA_DNNL_LOCATION)
  get_target_property(EA_DNNL_LOCATION DNNL::dnnl LOCATION)
endif()
file(REAL_PATH ${EA_DNNL_LOCATION} EA_DNNL_REAL)
message(STATUS "oneDNN: ${EA_DNNL_REAL}")
message(STATUS "Eigen: ${Eigen3_DIR}")
