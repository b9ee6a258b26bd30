# ea_room: one object library per room of src/cpp, whose include path holds only
# the rooms it may see, so that an include in the wrong direction cannot compile.
set(EA_ROOMS "" CACHE INTERNAL "")
set(EA_SOURCE_ROOT ${CMAKE_CURRENT_SOURCE_DIR}/src/cpp)
set(EA_COMPILE_OPTIONS -O3 -Wall -Wextra -Wno-psabi -Wno-restrict -fstack-protector-strong
    -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -ffp-contract=on)
# Keeps header paths as they are included: see ea_link_headers().
list(APPEND EA_COMPILE_OPTIONS -fno-canonical-system-headers)
# Bounds checks of the standard library, in every room except those that loop
# over elements.
set(EA_CHECKED -D_GLIBCXX_ASSERTIONS)
# These options follow those of the build type, Release; assertions are on.
set(EA_SANITIZE_OPTIONS "")
if(EA_SANITIZE)
  set(EA_SANITIZE_OPTIONS -O1 -g1 -UNDEBUG -U_FORTIFY_SOURCE -fsanitize=${EA_SANITIZE}
      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${EA_SANITIZE})
endif()

# Makes a folder of links to the visible rooms, and returns it.
function(ea_visible_rooms out room)
  set(view ${CMAKE_BINARY_DIR}/visible/${room})
  file(REMOVE_RECURSE ${view})
  file(MAKE_DIRECTORY ${view})
  foreach(visible IN LISTS ARGN)
    string(REGEX REPLACE "/.*" "" top ${visible})
    if(NOT EXISTS ${view}/${top})
      file(CREATE_LINK ${EA_SOURCE_ROOT}/${top} ${view}/${top} SYMBOLIC)
    endif()
  endforeach()
  set(${out} ${view} PARENT_SCOPE)
endfunction()

# ea_sanitize(target room): adds the sanitizers if the room is selected for them.
function(ea_sanitize target room)
  if((NOT EA_SANITIZE_ROOMS OR room IN_LIST EA_SANITIZE_ROOMS)
     AND NOT room IN_LIST EA_SANITIZE_NOT)
    target_compile_options(${target} PRIVATE ${EA_SANITIZE_OPTIONS})
  endif()
endfunction()

# ea_unity(target group size sources...): compiles ``size`` sources as one unit,
# because headers take longer to compile than the code after them. Names in a
# room's anonymous namespaces must therefore be unique. Targets with the same
# sources share the groups.
function(ea_unity target group size)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${EA_UNITY}
                        UNITY_BUILD_MODE GROUP)
  set(place 0)
  foreach(source IN LISTS ARGN)
    math(EXPR batch "${place} / ${size}")
    set_source_files_properties(${source} PROPERTIES
                                UNITY_GROUP ${group}${batch})
    math(EXPR place "${place} + 1")
  endforeach()
endfunction()

# ea_room(NAME room [DEPENDS rooms...] [LINK targets...] [PLAIN]
#         [GUARDED sources...])
# A PLAIN room has no sanitizers, except in its GUARDED sources.
function(ea_room)
  cmake_parse_arguments(R "PLAIN" "NAME" "DEPENDS;LINK;GUARDED" ${ARGN})
  string(REPLACE "/" "_" target ea_${R_NAME})
  # A list of sources that every change must edit would cause merge conflicts, so
  # rooms are globbed; sub-rooms and SIMD sources have their own targets.
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
       ${EA_SOURCE_ROOT}/${R_NAME}/*.cpp)
  if(R_NAME STREQUAL "kernels")
    list(FILTER sources EXCLUDE REGEX "/kernels/(ref|cpu|cuda)/")
  endif()
  list(FILTER sources EXCLUDE REGEX "/simd/")
  add_library(${target} OBJECT ${sources})
  # The guarded sources form their own unit, so that ccache has the others in every
  # build.
  if(R_GUARDED)
    list(TRANSFORM R_GUARDED PREPEND ${EA_SOURCE_ROOT}/${R_NAME}/)
    list(REMOVE_ITEM sources ${R_GUARDED})
    ea_unity(${target} ${target}_guarded 14 ${R_GUARDED})
    if(EA_SANITIZE AND NOT EA_SANITIZE_ROOMS)
      set_source_files_properties(${R_GUARDED} PROPERTIES
                                  COMPILE_OPTIONS "${EA_SANITIZE_OPTIONS}")
    endif()
  endif()
  ea_unity(${target} ${target}_batch 14 ${sources})
  ea_visible_rooms(view ${target} ${R_NAME} ${R_DEPENDS})
  target_include_directories(${target} PRIVATE ${view})
  target_compile_options(${target} PRIVATE ${EA_COMPILE_OPTIONS})
  if(NOT R_NAME MATCHES "^kernels/")
    target_compile_options(${target} PRIVATE ${EA_CHECKED})
  endif()
  if(NOT R_PLAIN)
    ea_sanitize(${target} ${R_NAME})
  endif()
  target_link_libraries(${target} PRIVATE ${R_LINK})
  set(EA_ROOMS ${EA_ROOMS} ${target} CACHE INTERNAL "")
endfunction()

# ea_simd(ROOM room TARGET name FLAGS ...): compiles the simd/ sources of a room
# for one instruction set, in a namespace named after it (macro EA_TARGET).
function(ea_simd)
  cmake_parse_arguments(S "" "ROOM;TARGET" "FLAGS" ${ARGN})
  string(REPLACE "/" "_" target ea_${S_ROOM}_${S_TARGET})
  file(GLOB sources CONFIGURE_DEPENDS ${EA_SOURCE_ROOT}/${S_ROOM}/simd/*.cpp)
  add_library(${target} OBJECT ${sources})
  ea_unity(${target} simd 7 ${sources})
  ea_visible_rooms(view ${target} kernels tensor runtime)
  target_include_directories(${target} PRIVATE ${view})
  target_compile_options(${target} PRIVATE ${EA_COMPILE_OPTIONS} ${S_FLAGS})
  ea_sanitize(${target} ${S_ROOM}/${S_TARGET})
  target_compile_definitions(${target} PRIVATE EA_TARGET=${S_TARGET})
  set(EA_ROOMS ${EA_ROOMS} ${target} CACHE INTERNAL "")
endfunction()

# ea_backends_source(file names...): writes the source of the function that
# registers these backends, in this order.
function(ea_backends_source file)
  set(EA_BACKEND_DECLARATIONS "")
  set(EA_BACKEND_CALLS "")
  foreach(name IN LISTS ARGN)
    string(APPEND EA_BACKEND_DECLARATIONS
           "namespace ea { void register_${name}_kernels(); }\n")
    string(APPEND EA_BACKEND_CALLS "    register_${name}_kernels();\n")
  endforeach()
  configure_file(${EA_SOURCE_ROOT}/kernels/backends.cpp.in ${file} @ONLY)
endfunction()

# ea_backends(names...): compiles the function that registers the extension's
# backends.
function(ea_backends)
  ea_backends_source(${CMAKE_BINARY_DIR}/backends.cpp ${ARGN})
  add_library(ea_backends OBJECT ${CMAKE_BINARY_DIR}/backends.cpp)
  ea_visible_rooms(view ea_backends kernels tensor runtime)
  target_include_directories(ea_backends PRIVATE ${view})
  target_compile_options(ea_backends PRIVATE ${EA_COMPILE_OPTIONS}
                         ${EA_SANITIZE_OPTIONS})
endfunction()

# ea_package(target folder): builds the extension as _core in a folder with links to
# the package's Python files, for PYTHONPATH=FOLDER/.. next to other builds.
function(ea_package target folder)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME _core
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN"
    LIBRARY_OUTPUT_DIRECTORY ${folder})
  file(MAKE_DIRECTORY ${folder})
  file(GLOB entries ${CMAKE_SOURCE_DIR}/src/evolving_attention/*)
  list(FILTER entries EXCLUDE REGEX "\\.so|__pycache__")
  foreach(entry IN LISTS entries)
    get_filename_component(name ${entry} NAME)
    if(NOT EXISTS ${folder}/${name})
      file(CREATE_LINK ${entry} ${folder}/${name} SYMBOLIC)
    endif()
  endforeach()
  file(COPY_FILE ${EA_DNNL_REAL} ${folder}/${EA_DNNL_FILE} ONLY_IF_DIFFERENT)
endfunction()
