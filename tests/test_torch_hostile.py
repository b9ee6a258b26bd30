"""Hostile pytorch_model.bin files: none of their requests is executed."""

from __future__ import annotations

import copyreg
import os
import pickle
import time
import tracemalloc
from typing import Any

import pytest
import torch_files as tf
from audit_watch import watching

from evolving_attention.errors import CheckpointError, UnsafeCheckpointError
from evolving_attention.interop.limits import MAX_PICKLE_BYTES
from evolving_attention.interop.torch_bin import read_torch_bin

FORMATS = ("zip", "legacy")


def read(data: bytes) -> None:
    with tf.in_memory(data) as file:
        read_torch_bin(file)


def wrap(body: bytes, form: str) -> bytes:
    """Returns a file of this format whose main pickle is ``body``."""
    return tf.zip_file(body) if form == "zip" else tf.legacy_file(body)


def model(item: bytes, form: str, numel: int = 6) -> bytes:
    """Returns a file with one tensor ``w`` and one float32 storage ``0`` of zeros."""
    body = tf.state_dict({"w": item})
    raw = bytes(4 * numel)
    if form == "zip":
        return tf.zip_file(body, {"0": raw})
    return tf.legacy_file(body, {"0": (numel, raw)})


def reference(form: str, key: bytes | None = None, numel: bytes | None = None) -> bytes:
    return tf.storage(
        tf.text("0") if key is None else key,
        tf.whole(6) if numel is None else numel,
        more=b"N" if form == "legacy" else b"",
    )


@pytest.fixture(autouse=True, scope="module")
def imported() -> None:
    """Reads one file of each kind, so that late imports do not look like attacks."""
    for form in FORMATS:
        read(model(tf.tensor(reference(form), (6,)), form))


GLOBALS = """
os.system posix.system nt.system os.popen os.execv os.spawnl os.remove os.putenv
subprocess.Popen subprocess.call subprocess.check_output subprocess.getoutput
builtins.eval builtins.exec builtins.compile builtins.__import__ builtins.getattr
builtins.open builtins.breakpoint builtins.print builtins.object builtins.type
__builtin__.eval __main__.anything sys.exit sys.setrecursionlimit gc.get_objects
importlib.import_module importlib.reload runpy.run_path runpy._run_code pty.spawn
pickle.loads _pickle.loads pickle.Unpickler marshal.loads shelve.open dbm.open
types.CodeType types.FunctionType types.SimpleNamespace functools.partial
functools.reduce operator.attrgetter operator.methodcaller itertools.starmap
ctypes.CDLL ctypes.memmove mmap.mmap socket.create_connection
ssl.get_server_certificate urllib.request.urlopen http.client.HTTPConnection
smtplib.SMTP webbrowser.open shutil.rmtree pathlib.Path.unlink tempfile.mktemp
code.InteractiveInterpreter codeop.compile_command timeit.timeit cProfile.run
profile.run trace.Trace bdb.Bdb pdb.run doctest.debug_script idlelib.pyshell.main
pip.main venv.create zipimport.zipimporter asyncio.create_subprocess_shell
multiprocessing.Process threading.Thread logging.config.dictConfig
copyreg._reconstructor copyreg.add_extension copyreg.__newobj__ collections.Counter
collections.defaultdict collections.OrderedDict.update torch.load torch.hub.load
torch.jit.load torch.ops.load_library torch._utils._rebuild_tensor
torch._utils._rebuild_qtensor torch._utils._import_dotted_name
torch.storage._load_from_bytes torch.utils.cpp_extension.load torch.FloatTensor
torch.FloatStorage.from_file numpy.core.multiarray._reconstruct numpy.load
numpy.f2py.crackfortran.myeval numpy.testing._private.utils.runstring
dill._dill._create_function joblib.load cloudpickle.loads yaml.unsafe_load
""".split()  # noqa: SIM905
ARGUMENT = "touch /tmp/evolving-attention-was-here"


def by_global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode() + tf.tuple_of(tf.text(ARGUMENT)) + b"R"


def by_stack_global(module: str, name: str) -> bytes:
    return tf.text(module) + tf.text(name) + b"\x93" + tf.text(ARGUMENT) + b"\x85R"


def by_inst(module: str, name: str) -> bytes:
    return b"(" + tf.text(ARGUMENT) + f"i{module}\n{name}\n".encode()


def by_obj(module: str, name: str) -> bytes:
    return f"(c{module}\n{name}\n".encode() + tf.text(ARGUMENT) + b"o"


def by_newobj(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode() + tf.text(ARGUMENT) + b"\x85\x81"


def by_newobj_ex(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode() + tf.text(ARGUMENT) + b"\x85}\x92"


def by_memo(module: str, name: str) -> bytes:
    """STACK_GLOBAL takes its strings from the memo, stored in the other order."""
    return tf.text(name) + b"q\x010" + tf.text(module) + b"q\x020h\x02h\x01\x93)R"


def by_memo_only(module: str, name: str) -> bytes:
    """Like :func:`by_memo`, allowed instructions only: a tuple holds the strings."""
    hold = tf.tuple_of(tf.text(name) + b"\x94", tf.text(module) + b"\x94")
    return hold + b"h\x01h\x00\x93)R\x86"


def by_old_text(module: str, name: str) -> bytes:
    return f"S'{module}'\nS'{name}'\n".encode() + b"\x93(S'x'\ntR"


def by_build(module: str, name: str) -> bytes:
    """Hides the global in the state of the state dict."""
    return tf.ORDERED + b")R" + tf.dict_of(_metadata=by_global(module, name)) + b"b"


def by_nested_reduce(module: str, name: str) -> bytes:
    return tf.REBUILD + tf.tuple_of(by_global(module, name)) + b"R"


def by_persistent_id(module: str, name: str) -> bytes:
    return tf.storage(by_global(module, name), tf.whole(1))


def by_key(module: str, name: str) -> bytes:
    return b"}(" + by_global(module, name) + b"Nu"


ROUTES = (
    by_global,
    by_stack_global,
    by_inst,
    by_obj,
    by_newobj,
    by_newobj_ex,
    by_memo,
    by_memo_only,
    by_old_text,
    by_build,
    by_nested_reduce,
    by_persistent_id,
    by_key,
)


def assert_refused(data: bytes, name: str) -> None:
    start = time.process_time()
    with watching() as events, pytest.raises(UnsafeCheckpointError) as caught:
        read(data)
    assert events == []
    assert name in str(caught.value)
    assert "safetensors" in str(caught.value)
    assert time.process_time() - start < 1
    assert not os.path.exists(ARGUMENT.split()[1])


@pytest.mark.parametrize("name", GLOBALS)
@pytest.mark.parametrize("form", FORMATS)
def test_no_other_global(name: str, form: str) -> None:
    body = by_global(*name.rsplit(".", 1))
    assert_refused(wrap(tf.PROTO + body + b".", form), name)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "torch.load"])
@pytest.mark.parametrize("form", FORMATS)
def test_no_way_to_a_global(route: Any, name: str, form: str) -> None:
    body = b"\x80\x04" + route(*name.rsplit(".", 1)) + b"."
    assert_refused(wrap(body, form), name)


@pytest.mark.parametrize("dotted", ["OrderedDict.update", "OrderedDict.__class__"])
def test_no_attribute_of_an_allowed_global(dotted: str) -> None:
    body = b"\x80\x04" + by_stack_global("collections", dotted) + b"."
    assert_refused(wrap(body, "zip"), f"collections.{dotted}")


@pytest.mark.parametrize("part", range(5))
def test_every_pickle_of_the_legacy_format(part: int) -> None:
    parts = tf.legacy_parts(tf.state_dict({}), [])
    parts[part] = tf.PROTO + by_global("os", "system") + b"."
    assert_refused(b"".join(parts), "os.system")


@pytest.mark.parametrize("code", [b"\x82\x05", b"\x83\x05\x01", b"\x84\x05\x01\0\0"])
def test_no_extension_codes(code: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    number = int.from_bytes(code[1:], "little")
    monkeypatch.setitem(copyreg._inverted_registry, number, ("os", "system"))
    if hasattr(copyreg, "_extension_cache"):
        monkeypatch.setitem(copyreg._extension_cache, number, os.system)
    body = tf.PROTO + code + tf.tuple_of(tf.text(ARGUMENT)) + b"R."
    assert_refused(wrap(body, "zip"), "EXT")


def real_pickle() -> bytes:
    class Payload:
        def __reduce__(self) -> Any:
            return os.system, (ARGUMENT,)

    return pickle.dumps({"w": Payload()}, protocol=2)


@pytest.mark.parametrize("form", FORMATS)
def test_a_pickle_as_attackers_make_it(form: str) -> None:
    assert_refused(wrap(real_pickle(), form), "system")


TAMPERS = {
    "build a function": tf.REBUILD + tf.dict_of(__code__=b"N") + b"b",
    "build slots of a function": tf.REBUILD + b"N" + tf.dict_of(a=b"N") + b"\x86b",
    "build the dict": tf.ORDERED + tf.dict_of(a=b"N") + b"b",
    "build a type": b"ctorch\nFloatStorage\n" + tf.dict_of(dtype=b"N") + b"b",
    "build a storage": reference("zip") + tf.dict_of(numel=b"K\xff") + b"b",
    "build a tensor": tf.tensor(reference("zip"), (6,)) + tf.dict_of(a=b"N") + b"b",
}


@pytest.mark.parametrize("body", TAMPERS.values(), ids=TAMPERS)
def test_our_objects_take_no_state(body: bytes) -> None:
    data = tf.zip_file(tf.PROTO + body + b".", {"0": bytes(24)})
    assert_refused(data, "change an object")
    read(model(tf.tensor(reference("zip"), (6,)), "zip"))  # valid files still load


DEPTH = 200_000
DOUBLED = b"K\x01" + b"q\x01h\x01\x86" * 60  # a tuple with 2^60 numbers in its repr
ODD = {
    "call a type": b"ctorch\nFloatStorage\n)R",
    "call a string": tf.text("os") + b")R",
    "no arguments": tf.REBUILD + b")R",
    "a list of pairs with a wrong key": tf.ORDERED
    + tf.tuple_of(tf.list_of(tf.tuple_of(b"K\x01", b"N")))
    + b"R",
    "a key whose repr takes forever": tf.ORDERED + b"]" + DOUBLED + b"N\x86a\x85R",
    "a deep dict": b"}" + (tf.text("a") + b"}") * DEPTH + b"s" * DEPTH,
    "build a plain dict": b"}}b",
    "an int as key": b"}K\x01Ns",
    "a deep tuple as key": b"}" + b")" + b"\x85" * DEPTH + b"Ns",
    "a deep tuple": b")" + b"\x85" * DEPTH,
    "a deep list": b"]" + b"]" * DEPTH + b"a" * DEPTH,
    "a huge memo number": b"Nr\xff\xff\xff\x7f",
    "a huge string": b"\x8d" + (1 << 60).to_bytes(8, "little") + b"x",
    "a huge byte array": b"\x96" + (1 << 40).to_bytes(8, "little") + b"x",
    "a huge frame": b"\x95" + (1 << 60).to_bytes(8, "little") + b"N",
    "a huge integer": b"\x8b\xff\xff\xff\x7f1",
    "text persistent id": b"Pabc\n",
    "an unknown memo number": b"h\x07",
    "an empty stack": b"R",
    "no mark": b"Nt",
    "a mark is popped as data": b"}(N" + b"s",
    "not a state dict": b"]",
    "a number in the state dict": tf.ORDERED + b")R" + tf.text("w") + b"K\x01s",
    "a name twice": tf.ORDERED + b")R(" + (tf.text("w") + b"N") * 2 + b"u",
    "an empty name": tf.dict_of(**{"": tf.tensor(reference("zip"), (6,))}),
    "a name with NUL": tf.dict_of(**{"a\0": tf.tensor(reference("zip"), (6,))}),
    "a long name": tf.dict_of(**{"a" * 600: tf.tensor(reference("zip"), (6,))}),
    "append to a tensor": tf.tensor(reference("zip"), (6,)) + b"Na",
    "set an item of a tensor": tf.tensor(reference("zip"), (6,)) + tf.text("a") + b"Ns",
    "protocol 9": b"\x80\x09N",
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD)
def test_odd_pickles_are_errors(body: bytes) -> None:
    data = tf.zip_file(tf.PROTO + body + b".", {"0": bytes(24)})
    start = time.process_time()
    with (
        watching() as events,
        pytest.raises(CheckpointError, match=r"model\.bin: "),
    ):
        read(data)
    assert events == []
    assert time.process_time() - start < 2


def test_a_version_whose_repr_takes_forever() -> None:
    parts = tf.legacy_parts(tf.state_dict({}), [])
    parts[1] = tf.PROTO + DOUBLED + b"."
    with pytest.raises(CheckpointError, match="unknown version"):
        read(b"".join(parts))


def test_a_huge_memo_number_takes_no_memory() -> None:
    """Python's C unpickler allocates 16 bytes for each memo index up to the largest."""
    body = tf.PROTO + b"}r" + ((1 << 31) - 1).to_bytes(4, "little") + b"."
    tracemalloc.start()
    try:
        read(tf.zip_file(body))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_length_of_a_pickle_is_bounded() -> None:
    """This also bounds the instructions, each of which allocates at most 80 bytes."""
    with pytest.raises(CheckpointError, match="above 2097152 bytes"):
        read(tf.zip_file(tf.PROTO + b"]" * MAX_PICKLE_BYTES))


def tensors(form: str) -> dict[str, bytes]:
    """Returns invalid tensors and storages; storage 0 holds 6 float32 values."""
    ref = reference(form)

    def key(value: str) -> bytes:
        return tf.tensor(reference(form, key=tf.text(value)), (6,))

    def numel(value: bytes) -> bytes:
        return tf.tensor(reference(form, numel=value), (6,))

    return {
        "one element too many": tf.tensor(ref, (7,)),
        "offset": tf.tensor(ref, (6,), (1,), offset=1),
        "offset far": tf.tensor(ref, (1,), (1,), offset=1 << 62),
        "offset behind nothing": tf.tensor(ref, (0,), (1,), offset=7),
        "negative offset": tf.tensor(ref, (1,), (1,), offset=-1),
        "stride": tf.tensor(ref, (2, 3), (4, 1)),
        "huge stride": tf.tensor(ref, (2,), (1 << 70,)),
        "negative stride": tf.tensor(ref, (2,), (-1,), offset=5),
        "repeated by stride 0": tf.tensor(ref, (1 << 40, 6), (0, 1)),
        "huge shape": tf.tensor(ref, (1 << 40, 1 << 40), (1, 1)),
        "shape that wraps to 0": tf.tensor(ref, (1 << 32, 1 << 32), (0, 0)),
        "negative shape": tf.tensor(ref, (-2, -3), (1, 1)),
        "ranks differ": tf.tensor(ref, (2, 3), (1,)),
        "nine axes": tf.tensor(ref, (1,) * 9),
        "key leads up": key("../../etc/passwd"),
        "key is absolute": key("/etc/passwd"),
        "key with NUL": key("0\0"),
        "key in another folder": key("sub/0"),
        "key that is not there": key("1"),
        "key is dots": key(".."),
        "key is a number": tf.tensor(reference(form, key=b"K\x00"), (6,)),
        "numel too many": numel(tf.whole(7)),
        "numel too few": numel(tf.whole(5)),
        "numel huge": numel(tf.whole(1 << 61)),
        "numel wraps": numel(tf.whole((1 << 62) + 6)),
        "numel very huge": numel(tf.whole(1 << 900)),
        "numel negative": numel(tf.whole(-6)),
        "numel is a truth value": numel(b"\x88"),
        "numel is a float": numel(b"G" + bytes(8)),
        "another persistent id": tf.tensor(tf.text("x") + b"Q", (6,)),
        "a short persistent id": tf.tensor(
            tf.tuple_of(tf.text("storage")) + b"Q", (6,)
        ),
        "a module": tf.tensor(tf.tuple_of(tf.text("module"), *[b"N"] * 4) + b"Q", (6,)),
        "no storage": tf.tensor(b"N", (6,)),
        "two types of one storage": tf.tuple_of(
            tf.tensor(ref, (6,)),
            tf.tensor(
                tf.storage(
                    tf.text("0"),
                    tf.whole(3),
                    kind="Double",
                    more=b"N" if form == "legacy" else b"",
                ),
                (3,),
            ),
        ),
    }


@pytest.mark.parametrize("case", tensors("zip"))
@pytest.mark.parametrize("form", FORMATS)
def test_bounds_are_checked(case: str, form: str) -> None:
    data = model(tensors(form)[case], form)
    with (
        watching() as events,
        pytest.raises(CheckpointError, match=r"model\.bin: "),
    ):
        read(data)
    assert events == []
