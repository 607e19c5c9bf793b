"""Mistakes in a manifest: each message has the file, the line, the key, and what to do."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from backend_checks import check_error
from each_case import raised, refusal

import devmod
from devmod_targets.build import ManifestError, plan_of, read_manifest
from devmod_workbench._cli import main

OPENCL = 'targets = ["opencl"]\n'
TWICE = '[kernels.twice]\nsources = ["twice.cl"]\n'
KERNEL = OPENCL + TWICE

#: A manifest, and the mistakes in it after the file's name.
MISTAKES: list[tuple[str, list[str]]] = [
    ('targets = ["opencl"\n', [":2: the end of the file: the text is not TOML: Unclosed array"]),
    ("a = 1\na = 2\n", [":2: column 6: the text is not TOML: Cannot overwrite a value"]),
    ('x = "', [":1: the end of the file: the text is not TOML: Unterminated string"]),
    (
        "",
        [
            ': targets: the key is missing. It lists the targets, as in targets = ["opencl", "cuda -arch=sm_90"]'
        ],
    ),
    (
        'targets = "opencl"\n' + TWICE,
        [
            ':1: targets: expected an array of strings, such as ["opencl", "cuda -arch=sm_90"], got the string \'opencl\''
        ],
    ),
    (
        "targets = []\n" + TWICE,
        [
            ':1: targets: the array is empty: expected targets, such as ["opencl", "cuda -arch=sm_90"]'
        ],
    ),
    (
        'targets = ["opencl", 3, ""]\n' + TWICE,
        [
            ":1: targets[1]: expected a string, got the integer 3",
            ":1: targets[2]: the string is empty",
        ],
    ),
    (
        'targets = ["opncl"]\n' + TWICE,
        [":1: targets[0]: unknown target 'opncl'. Did you mean 'opencl'?"],
    ),
    (
        'targets = ["cuda arch=sm_90"]\n' + TWICE,
        [
            ":1: targets[0]: the target 'cuda arch=sm_90' has 'arch=sm_90', which is not of the form -name=value"
        ],
    ),
    (
        'targets = ["opencl", "opencl"]\n' + TWICE,
        [":1: targets[1]: the target 'opencl' is listed twice"],
    ),
    (
        'targets = ["opencl", "cuda -arch=sm_80,sm_90", "cuda -arch=sm_90"]\n' + TWICE,
        [
            ":1: targets[2]: the target 'cuda -arch=sm_90' is a part of 'cuda -arch=sm_80,sm_90' as well"
        ],
    ),
    (
        'targets = ["opencl"]\n',
        [
            ": kernels: the manifest has no kernels; a kernel is a table such as [kernels.twice] with sources"
        ],
    ),
    (
        OPENCL + "kernels = 3\n",
        [":2: kernels: expected a table of kernels, such as [kernels.twice], got the integer 3"],
    ),
    (OPENCL + "[kernels]\ntwice = 3\n", [":3: kernels.twice: expected a table, got the integer 3"]),
    (
        OPENCL + '[kernel.twice]\nsources=["twice.cl"]\n',
        [":2: kernel: unknown key. Did you mean 'kernels', as in [kernels.twice]?"],
    ),
    (
        OPENCL + '[kernels.twice]\nsource = ["twice.cl"]\n',
        [":3: kernels.twice.source: unknown key. Did you mean 'sources'?"],
    ),
    (
        OPENCL + "[kernels.twice]\n",
        [
            ':2: kernels.twice: the kernel has no sources, such as sources = ["twice.cl", "twice.cu"]'
        ],
    ),
    (
        OPENCL + "[kernels.twice]\nsources = []\n",
        [
            ':3: kernels.twice.sources: expected an array of paths, such as ["twice.cl", "twice.cu"], got an empty array'
        ],
    ),
    (
        OPENCL + '[kernels.twice]\nsources = "twice.cl"\n',
        [
            (
                ':3: kernels.twice.sources: expected an array of paths, such as ["twice.cl", "twice.cu"], got the string \'twice.cl\''
            )
        ],
    ),
    (
        OPENCL + '[kernels.twice]\nsources = ["twise.cl"]\n',
        [":3: kernels.twice.sources[0]: 'twise.cl' does not exist. Did you mean 'twice.cl'?"],
    ),
    (
        OPENCL + '[kernels.twice]\nsources = ["sub"]\n',
        [":3: kernels.twice.sources[0]: 'sub' is a folder; expected a file"],
    ),
    (
        OPENCL
        + '[kernels.twice]\nsources = ["/twice.cl", "C:/k.cl", "~/k.cl", \'a\\b.cl\', "$HOME/a.cl", "*.cl", { language = "cl" }, { path = "twice.cl", lang = "cl" }, 7]\n',
        [
            (
                ":3: kernels.twice.sources[0]: expected a path relative to the manifest's folder, got '/twice.cl': other "
                "machines have other folders"
            ),
            (
                ":3: kernels.twice.sources[1]: expected a path relative to the manifest's folder, got 'C:/k.cl': other "
                "machines have other folders"
            ),
            (
                ":3: kernels.twice.sources[2]: expected a path relative to the manifest's folder, got '~/k.cl': other machines "
                "have other folders"
            ),
            ":3: kernels.twice.sources[3]: expected slashes in a path, got 'a\\\\b.cl'; write 'a/b.cl'",
            ":3: kernels.twice.sources[4]: environment variables are not replaced, got '$HOME/a.cl'",
            ":3: kernels.twice.sources[5]: patterns are not supported, got '*.cl'; name each file. devmod init lists them",
            ':3: kernels.twice.sources[6]: the source has no path, as in { path = "k.inc", language = "OpenCL C" }',
            ":3: kernels.twice.sources[7].lang: unknown key. Did you mean 'language'?",
            ":3: kernels.twice.sources[8]: expected a string, got the integer 7",
        ],
    ),
    (
        OPENCL + '[kernels.twice]\nsources = ["twice.cl", "twice.cl"]\n',
        [":3: kernels.twice.sources[1]: 'twice.cl' is listed twice"],
    ),
    (
        'targets = ["rocm -arch=gfx90a"]\n[kernels.k]\nsources = ["k.slang", "twice.cu", "k.hip"]\n'
        '[kernels.twice]\nsources = ["k.slang", "twice.cu"]\n',
        [
            f":{line}: kernels.{kernel}.sources[{index}]: {source} is {language}, and is for no target of the kernel: rocm gets the {own}, because "
            "a target gets its own language, or else that of the first source. Make it a kernel of its own, or remove the source"
            for line, kernel, index, source, language, own in [
                (3, "k", 0, "'k.slang'", "Slang", "HIP"),
                (3, "k", 1, "'twice.cu'", "CUDA C++", "HIP"),
                (5, "twice", 1, "'twice.cu'", "CUDA C++", "Slang"),
            ]
        ],
    ),
    (
        OPENCL + '[kernels.twice]\nsources = ["twice.cl", "k.metal"]\n',
        [
            (
                ":3: kernels.twice.sources[1]: 'k.metal' is MSL, and no target of the kernel takes it. Add a target, such as "
                "'metal', or remove the source"
            )
        ],
    ),
    (
        OPENCL + '[kernels.twice]\nsources = ["twice.cl", "k.inc"]\n',
        [
            (
                ":3: kernels.twice.sources[1]: the suffix of 'k.inc' does not show its language; give it, as in { path = "
                '"k.inc", language = "OpenCL C" }'
            )
        ],
    ),
    (
        'targets = ["opencl", "webgpu"]\n' + TWICE,
        [
            (
                ":3: kernels.twice.sources: no source is for the target 'webgpu', which takes WGSL (.wgsl), Slang (.slang). "
                'Add one, or leave the kind out: skip = ["webgpu"]'
            )
        ],
    ),
    (
        'targets = ["cuda -arch=sm_90", "rocm -arch=gfx1100"]\n[kernels.k]\nsources = ["k.ll"]\n',
        [
            (
                ":3: kernels.k.sources[0]: cuda and rocm both take files such as 'k.ll', and each is for one kind. Name it: "
                '[kernels.k.target.cuda] with sources = ["k.ll"]'
            )
        ],
    ),
    (
        KERNEL + 'skip = ["opncl"]\n',
        [
            ":4: kernels.twice.skip[0]: no target is of the kind 'opncl'; the kinds are 'opencl'. Did you mean 'opencl'?"
        ],
    ),
    (
        KERNEL + 'skip = ["opencl"]\n',
        [":4: kernels.twice.skip: it leaves out every target of the kernel"],
    ),
    (
        KERNEL + "targets = []\n",
        [
            ":4: kernels.twice.targets: the array is empty; without this key the kernel has the targets of the manifest"
        ],
    ),
    (
        KERNEL + 'targets = ["vulcan"]\n',
        [":4: kernels.twice.targets[0]: unknown target 'vulcan'. Did you mean 'vulkan'?"],
    ),
    (
        KERNEL + "[kernels.twice.target.cuda]\n",
        [":4: kernels.twice.target.cuda: the kernel has no such target; its targets are 'opencl'"],
    ),
    (
        KERNEL + '[target."cuda -arch"]\n',
        [
            ":4: target.\"cuda -arch\": the target 'cuda -arch' has '-arch', which is not of the form -name=value"
        ],
    ),
    (
        KERNEL + "[target.opencl]\nblock = 3\n",
        [
            ":5: target.opencl.block: unknown key; it belongs to one kernel: [kernels.NAME.target.opencl]"
        ],
    ),
    (
        KERNEL + 'language = "OpenCL"\n',
        [":4: kernels.twice.language: unknown language 'OpenCL'. Did you mean 'OpenCL C'?"],
    ),
    (
        KERNEL + 'language = "Fortran"\n',
        [
            (
                ":4: kernels.twice.language: unknown language 'Fortran'; the languages are CUDA C++, HIP, Slang, Triton, PTX, cubin, fatbin, LLVM IR, "
                "LLVM bitcode, OpenCL C, assembly, MSL, GLSL, HLSL, SPIR-V, C, C++, object, WGSL"
            )
        ],
    ),
    (KERNEL + 'name = ""\n', [":4: kernels.twice.name: the string is empty"]),
    (
        KERNEL + 'name = "a\\nb"\n',
        [":4: kernels.twice.name: the string has a line break or a control character: 'a\\nb'"],
    ),
    (
        KERNEL + 'options = "-O3"\n',
        [
            ":4: kernels.twice.options: expected an array of strings, such as [\"--use_fast_math\"], got the string '-O3'"
        ],
    ),
    (
        'targets = ["opencl", "vulkan"]\n[kernels.twice]\nsources = ["twice.cl", "fill.spv"]\ndefines = { A = 1 }\ninclude = ["include"]\n'
        "target.vulkan = { defines = { B = 1 } }\n",
        [
            ":4: kernels.twice.defines: 'fill.spv' is SPIR-V, which has no preprocessor; move the key to the targets that have one: "
            "[kernels.twice.target.KIND]",
            ":5: kernels.twice.include: 'fill.spv' is SPIR-V, which has no preprocessor; move the key to the targets that have one: "
            "[kernels.twice.target.KIND]",
            ":6: kernels.twice.target.vulkan.defines: 'fill.spv' is SPIR-V, which has no preprocessor; remove the key",
        ],
    ),
    (
        KERNEL + 'defines = ["A"]\n',
        [
            ":4: kernels.twice.defines: expected a table of macros, such as { WIDTH = 16 }, got an array"
        ],
    ),
    (
        KERNEL + 'defines = { "1A" = 1, B = [], C = "a\\nb", D = inf }\n',
        [
            ':4: kernels.twice.defines.1A: expected the name of a macro, or a name with parameters such as "F(x)"',
            ":4: kernels.twice.defines.B: expected a string, a number or a boolean, got an array",
            ":4: kernels.twice.defines.C: the string has a line break or a control character: 'a\\nb'",
            ":4: kernels.twice.defines.D: expected a finite number, got inf",
        ],
    ),
    (
        KERNEL + 'include = ["includ", "/usr/include"]\n',
        [
            (
                ":4: kernels.twice.include[1]: expected a path relative to the manifest's folder, got '/usr/include': other "
                "machines have other folders"
            ),
            ":4: kernels.twice.include[0]: the folder 'includ' does not exist. Did you mean 'include'?",
        ],
    ),
    (
        KERNEL + "block = 0\n",
        [
            (
                ":4: kernels.twice.block: expected an integer of 1 or more, an expression, or an array of up to three of them for "
                "x, y, z, got the integer 0"
            )
        ],
    ),
    (
        KERNEL + "block = [1,2,3,4]\n",
        [
            (
                ":4: kernels.twice.block: expected an integer of 1 or more, an expression, or an array of up to three of them for "
                "x, y, z, got [1, 2, 3, 4]"
            )
        ],
    ),
    (
        KERNEL + "block = { a = 1.5, b = 16 }\n",
        [
            (
                ":4: kernels.twice.block.a: expected an integer of 1 or more, an expression, or an array of up to three of them for "
                "x, y, z, got the float 1.5"
            )
        ],
    ),
    (
        KERNEL + 'grid = ["n", " "]\n',
        [
            (
                ":4: kernels.twice.grid: expected an integer of 1 or more, an expression, or an array of up to three of them for x, "
                "y, z, got an array"
            )
        ],
    ),
    (
        KERNEL + 'tune = { "a b" = [1], BLOCK = 2, TILE = [[1]] }\n',
        [
            (
                ':4: kernels.twice.tune."a b": expected the name of a constant and an array of values, such as BLOCK = [64, 128], got an '
                "array"
            ),
            (
                ":4: kernels.twice.tune.BLOCK: expected the name of a constant and an array of values, such as BLOCK = [64, 128], got the "
                "integer 2"
            ),
            (
                ":4: kernels.twice.tune.TILE: expected the name of a constant and an array of values, such as BLOCK = [64, 128], got an "
                "array"
            ),
        ],
    ),
    (
        KERNEL + "shared_memory = 0\n",
        [
            ':4: kernels.twice.shared_memory: expected bytes of 1 or more, such as 1024, or "4/thread", got the integer 0',
        ],
    ),
    (
        KERNEL + 'shared_memory = { f = "4/lane", g = [4] }\n',
        [
            ":4: kernels.twice.shared_memory.f: expected bytes of 1 or more, such as 1024, or \"4/thread\", got the string '4/lane'",
            ':4: kernels.twice.shared_memory.g: expected bytes of 1 or more, such as 1024, or "4/thread", got an array',
        ],
    ),
    (
        KERNEL + "local = 3\n",
        [
            (
                ':4: kernels.twice.local: expected a table of sizes by parameter, such as { scratch = "4/thread" }, got the integer 3'
            )
        ],
    ),
    (
        KERNEL + 'local = { s = 0, t = "4/lane", u = { v = true } }\n',
        [
            ':4: kernels.twice.local.s: expected bytes of 1 or more, such as 1024, or "4/thread", got the integer 0',
            ":4: kernels.twice.local.t: expected bytes of 1 or more, such as 1024, or \"4/thread\", got the string '4/lane'",
            ':4: kernels.twice.local.u.v: expected bytes of 1 or more, such as 1024, or "4/thread", got the boolean true',
        ],
    ),
    (
        OPENCL
        + '[kernels.twice]\nsources = ["twice.cl", { path = "k.inc", language = "cl" }]\nname = "x"\nblock = { twice = 3 }\nlocal = { s = 1 }\n[kernels.twice.functions.twice]\narg_types = []\n',
        [
            (
                ":4: kernels.twice.name: the key name is for one source, and 'opencl' has 2; make each source a kernel of its own"
            ),
            (
                ":5: kernels.twice.block: a block by function is for one source, and 'opencl' has 2; make each source a kernel of its own"
            ),
            (
                ":6: kernels.twice.local: the key local is for one source, and 'opencl' has 2; make each source a kernel of its own"
            ),
            (
                ":7: kernels.twice.functions: the key functions is for one source, and 'opencl' has 2; make each source a kernel of its own"
            ),
        ],
    ),
    (
        KERNEL + "[kernels.twice.functions.twice]\nargs = []\n",
        [":5: kernels.twice.functions.twice.args: unknown key. Did you mean 'params'?"],
    ),
    (
        KERNEL + '[kernels.twice.functions.twice]\narg_types = "x"\n',
        [":5: kernels.twice.functions.twice.arg_types: expected an array, got the string 'x'"],
    ),
    (
        KERNEL + '[kernels.twice.functions.twice]\narg_types = ["flot32"]\n',
        [
            (
                ":4: kernels.twice.functions.twice: the declaration is invalid: 'flot32' is not a type: expected a name such "
                "as 'float32', 'int64', 'uint8', 'bool', 'bfloat16', 'handle', or one with lanes such as 'float16x4'"
            )
        ],
    ),
    (
        KERNEL + '[kernels.twice.functions.twice]\nparams = [{ name = "x", kind = "bufer" }]\n',
        [
            (
                ":4: kernels.twice.functions.twice: the declaration is invalid: the parameter 'x' has the kind 'bufer'; a kind "
                "is one of buffer, scalar, uniform, local, image, sampler"
            )
        ],
    ),
    (
        KERNEL + "[kernels.twice.functions.twice]\nparams = [1]\n",
        [
            ":4: kernels.twice.functions.twice: the declaration is invalid: a parameter is a map with string keys, not int"
        ],
    ),
    (
        KERNEL + "[kernels.twice.functions.twice]\nparams = []\ninterface = {}\n",
        [
            ":5: kernels.twice.functions.twice.params: the interface has its own params; give one of the two"
        ],
    ),
    (
        KERNEL + "[kernels.twice.functions.twice]\narg_types = [2000-01-01]\n",
        [
            ":4: kernels.twice.functions.twice: the declaration has a date, a time or a number that is not finite"
        ],
    ),
    (
        KERNEL + '[kernels.twice.functions.twice]\narg_types = ["int32"]\nparams = []\n',
        [
            (
                ":4: kernels.twice.functions.twice: the declaration is invalid: the function 'twice' has 1 arg_types and an "
                "interface of 0 values"
            )
        ],
    ),
    (
        'output = "k.bin"\ntargets = ["opencl"]\n' + TWICE,
        [":1: output: expected a file that ends in .devmod, got 'k.bin'"],
    ),
    (
        'output = "../k.devmod"\ntargets = ["opencl"]\n' + TWICE,
        [
            ":1: output: expected a file in the manifest's folder, got '../k.devmod'; devmod build --output FILE writes another"
        ],
    ),
    (
        'output = "sub/../../.bashrc"\ntargets = ["opencl"]\n' + TWICE,
        [
            ":1: output: expected a file in the manifest's folder, got 'sub/../../.bashrc'; devmod build --output FILE writes another"
        ],
    ),
    (
        OPENCL
        + 'options = ["-w", "-toolchain=./evil"]\n'
        + TWICE
        + '[kernels.twice.target.opencl]\noptions = ["-device-libs=lib"]\n',
        [
            ":2: options[1]: '-toolchain=./evil' is not an option of a manifest, which may come from a stranger; expected a clang in PATH, "
            "such as -toolchain=clang-19; DEVMOD_CLANG names another program",
            ":6: kernels.twice.target.opencl.options[0]: '-device-libs=lib' is not an option of a manifest, which may come from a stranger; "
            "expected the library in DEVMOD_ROCM_DEVICE_LIBS, without this option",
        ],
    ),
    (
        'output = "sub/"\ntargets = ["opencl"]\n' + TWICE,
        [":1: output: expected a file that ends in .devmod, got 'sub/'"],
    ),
    (
        'compress = "gzip"\nmixed = 1\ntargets = ["opencl"]\n' + TWICE,
        [
            ':1: compress: expected "zstd", or "zstd:19" for another level, got the string \'gzip\'',
            ":2: mixed: expected true or false, got the integer 1",
        ],
    ),
    (
        KERNEL + 'output = "x"\n',
        [":4: kernels.twice.output: unknown key; the manifest has one output for all kernels"],
    ),
    (
        'outptu = "x"\ntargets = ["opencl"]\n' + TWICE,
        [":1: outptu: unknown key. Did you mean 'output'?"],
    ),
    (
        'sources = ["a.cl"]\ntargets = ["opencl"]\n' + TWICE,
        [":1: sources: unknown key; it belongs to one kernel: [kernels.NAME]"],
    ),
    (
        '[tool.devmod]\ntargets = ["opencl"]\n',
        [
            ': targets: the key is missing. It lists the targets, as in targets = ["opencl", "cuda -arch=sm_90"]',
            ":1: tool: unknown key. Only a pyproject.toml has [tool.devmod]; in this file its keys are at the top",
        ],
    ),
    (
        OPENCL + "[constants]\n",
        [
            ':2: constants.files: the key is missing. It lists the files, as in files = ["weights.npz"]'
        ],
    ),
    (OPENCL + "constants = 3\n", [":2: constants: expected a table with files, got the integer 3"]),
    (
        OPENCL
        + '[constants]\nfiles = ["w.bin", "v.npy", { path = "w.npy", names = ["a"] }, { path = "z.npz", name = "a" }, 3]\nfunctions = 3\n',
        [
            ":3: constants.files[0]: expected a file that ends in .npy, .npz, .safetensors, got 'w.bin'",
            ":3: constants.files[2]: the key names is for .npz and .safetensors; 'w.npy' has one array. To name it: name",
            (
                ":3: constants.files[3]: the key name is for .npy files, which have one array; 'z.npz' names its own. To choose some: names"
            ),
            ":3: constants.files[4]: expected a string, got the integer 3",
            ":3: constants.files[0]: 'w.bin' does not exist. Did you mean 'w.npy'?",
            ":3: constants.files[1]: 'v.npy' does not exist. Did you mean 'w.npy'?",
            ":3: constants.files[3]: 'z.npz' does not exist. Did you mean 'w.npy'?",
            (
                ':4: constants.functions: expected a table of functions, such as { load_weights = ["w", "b"] }, got the integer 3'
            ),
        ],
    ),
    (
        OPENCL + '[constants]\nfiles = ["w.npy"]\nfunctions = { f = "w" }\nsymbols = {}\n',
        [
            ':4: constants.functions.f: expected an array of strings, such as ["w", "b"], got the string \'w\'',
            ":5: constants.symbols: unknown key. Did you mean 'functions'?",
        ],
    ),
    (
        'targets = ["vulkan"]\n[kernels.twice]\nsources = ["twice.comp", "sub/twice.comp"]\n',
        [
            (
                ":3: kernels.twice.sources[1]: 'twice.comp' of the kernel 'twice' and 'sub/twice.comp' are both the function "
                '\'twice\' for vulkan; name one: { path = "sub/twice.comp", name = "…" }'
            )
        ],
    ),
    (
        'targets = ["vulkan"]\n[kernels.twice]\nsources = ["twice.comp"]\n[kernels.b]\nsources = ["sub/twice.comp"]\nname = "twice"\n',
        [
            (
                ":5: kernels.b.sources[0]: 'twice.comp' of the kernel 'twice' and 'sub/twice.comp' are both the function "
                '\'twice\' for vulkan; name one: { path = "sub/twice.comp", name = "…" }'
            )
        ],
    ),
    (
        OPENCL + 'kernels = {"a\\nb" = {sources=["twice.cl"]}}\n',
        [':2: kernels."a\\nb": a kernel\'s name is text without control characters'],
    ),
    (
        OPENCL + 'kernels.twice.sources = ["twice.cl"]\nkernels.twice.blok = 3\n',
        [":3: kernels.twice.blok: unknown key. Did you mean 'block'?"],
    ),
    (
        "[[kernels]]\na=1\n",
        [
            ': targets: the key is missing. It lists the targets, as in targets = ["opencl", "cuda -arch=sm_90"]',
            ":1: kernels: expected a table of kernels, such as [kernels.twice], got an array",
        ],
    ),
    (
        OPENCL + '[kernels.a]\n\n\nsources = [\n "twice.cl",\n # x\n "twice.cl"]\n',
        [":8: kernels.a.sources[1]: 'twice.cl' is listed twice"],
    ),
    (
        OPENCL + '[constants]\nfiles = "w.npy"\n',
        [
            ":3: constants.files: expected an array of paths, such as [\"weights.npz\"], got the string 'w.npy'"
        ],
    ),
    (
        OPENCL + '[constants]\nfiles = [{ name = "w" }]\n',
        [
            ':3: constants.files[0]: the file has no path, as in { path = "w.npy", name = "weights" }'
        ],
    ),
    # A target without an architecture, for kinds and languages that need one.
    (
        'targets = [\n"opencl",\n"cuda",\n"rocm -format=hip"]\n[kernels.k]\nsources = ["twice.cl", "twice.cu", "k.hip"]\n'
        '[kernels.l]\ntargets = ["hexagon"]\nsources = ["k.ll"]\n',
        [
            ":3: targets[1]: the target 'cuda' names no architecture. Name those of the devices: 'cuda -arch=sm_80,sm_90,compute_90'. Or "
            "keep the source, which the receiver compiles: 'cuda -format=cuda'. PTX, cubin, fatbin need none",
            ":8: kernels.l.targets[0]: the target 'hexagon' names no architecture. Name those of the devices: 'hexagon -arch=v68'",
        ],
    ),
    (
        'targets = ["cuda"]\n[kernels.a]\nsources = ["k.ptx"]\n[kernels.b]\nsources = [{ path = "k.ll", language = "LLVM bitcode" }]\n',
        [
            ":1: targets[0]: the target 'cuda' names no architecture. Name those of the devices: 'cuda -arch=compute_80'. PTX, cubin, "
            "fatbin need none"
        ],
    ),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder has sources of several languages."""
    monkeypatch.chdir(tmp_path)
    for name in ("sub", "include"):
        Path(name).mkdir()
    for name in (
        "twice.cl",
        "twice.comp",
        "twice.cu",
        "k.hip",
        "k.ptx",
        "k.ll",
        "k.inc",
        "k.metal",
        "k.slang",
        "fill.spv",
        "w.npy",
        "sub/twice.comp",
    ):
        Path(name).write_text("")
    return tmp_path


def message_of(manifest: str | bytes, path: str = "devmod.toml") -> str:
    Path(path).write_bytes(manifest if isinstance(manifest, bytes) else manifest.encode())
    return refusal(ManifestError, read_manifest, path)


@pytest.mark.parametrize(("manifest", "mistakes"), MISTAKES)
def test_a_mistake_has_its_line_and_its_key(manifest: str, mistakes: list[str]) -> None:
    lines = [f"devmod.toml{mistake}" for mistake in mistakes]
    head = [f"devmod.toml has {len(lines)} mistakes:"] if len(lines) > 1 else []
    assert message_of(manifest) == "\n".join([*head, *lines])


def test_the_mistakes_are_listed_for_programs() -> None:
    message_of(KERNEL + "blok = 3\n")
    refused = raised(devmod.FormatError, read_manifest)
    error = refused
    assert isinstance(error, ManifestError)
    assert (error.path, [tuple(each) for each in error.problems]) == (
        "devmod.toml",
        [(4, "kernels.twice.blok", "unknown key. Did you mean 'block'?")],
    )
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.problems) == (str(error), error.problems)


def test_a_message_lists_twenty_mistakes() -> None:
    lines = message_of(KERNEL + "".join(f"x{number} = 1\n" for number in range(25))).split("\n")
    assert (lines[0], lines[-1], len(lines)) == ("devmod.toml has 25 mistakes:", "… and 5 more", 22)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"# \xff\n", ":1: the file: expected UTF-8 text, got the byte 0xff"),
        (b"\n\nx = \xe4\n", ":3: the file: expected UTF-8 text, got the byte 0xe4"),
        (
            b"x = " + b"[" * 5000 + b"]" * 5000,
            ": the file: its arrays or tables are nested too deeply",
        ),
        (
            b"x = " + b"[" * 33 + b"0" + b"]" * 33,
            ": the file: its arrays or tables are nested too deeply",
        ),
        (b"a." * 200_000 + b"a = 1", ": the file: its arrays or tables are nested too deeply"),
        (
            b"[" + b'\'a\' . "\\"".' * 100_000 + b"a]",
            ": the file: its arrays or tables are nested too deeply",
        ),
        (b"#" * (17 << 20), ": the file: it is too large for a manifest: over 16 MiB"),
        (b"x = " + b"9" * 5000, ": the file: it has an integer of more than 64 bits"),
        (
            b"\na.b = [0, {c = 0x" + b"f" * 5000 + b"}]",
            ":2: a.b[1].c: expected an integer of at most 64 bits",
        ),
        (b"x = 18446744073709551616", ":1: x: expected an integer of at most 64 bits"),
        (b"x = -9223372036854775809", ":1: x: expected an integer of at most 64 bits"),
    ],
    ids=[
        "a byte",
        "a byte in line 3",
        "depth",
        "depth of arrays",
        "depth of a key",
        "depth of a header",
        "size",
        "digits",
        "digits in hex",
        "more than 64 bits",
        "less than 64 bits",
    ],
)
def test_a_file_that_is_no_manifest(data: bytes, message: str) -> None:
    assert message_of(data) == f"devmod.toml{message}"


def test_integers_of_64_bits_are_read() -> None:
    Path("devmod.toml").write_text(
        KERNEL + "defines = {A = 18446744073709551615, B = -9223372036854775808}\n"
    )
    assert read_manifest().kernels[0].section.defines == (("A", 2**64 - 1), ("B", -(2**63)))


def test_a_manifest_in_a_pipe_is_refused_at_once() -> None:
    os.mkfifo("devmod.toml")
    check_error(
        devmod.FormatError,
        lambda: read_manifest("devmod.toml"),
        "'devmod.toml' is a pipe (FIFO); expected a regular file",
    )


def test_the_first_thousand_mistakes_are_enough() -> None:
    """A look-up of each of a million unknown targets would take minutes."""
    names = ", ".join(f'"t{number}"' for number in range(50_000))
    lines = message_of(f"targets = [{names}]\n{TWICE}").split("\n")
    assert (lines[0], lines[-1], len(lines)) == (
        "devmod.toml has 1000 mistakes or more:",
        "… and 980 more",
        22,
    )


def test_a_mistake_in_a_pyproject_has_the_line_of_that_file() -> None:
    text = '[project]\nname = "x"\n\n[tool.devmod]\ntargets = ["opencl"]\nkernels.twice.sources = ["twice.cl"]\nmixd = true\n'
    assert (
        message_of(text, "pyproject.toml")
        == "pyproject.toml:7: tool.devmod.mixd: unknown key. Did you mean 'mixed'?"
    )
    assert message_of("[project]\n", "pyproject.toml") == (
        "pyproject.toml: tool.devmod: expected a table with the manifest, which is missing. See: devmod init --help"
    )


def test_a_folder_with_two_manifests() -> None:
    Path("devmod.toml").write_text(KERNEL)
    Path("pyproject.toml").write_text('[tool.devmod]\ntargets = ["opencl"]\n')
    assert (
        refusal(ManifestError, read_manifest)
        == "pyproject.toml:1: tool.devmod: devmod.toml is a manifest as well; keep one of them"
    )


def test_a_folder_without_a_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pyproject.toml").write_text("[project]\n")
    with pytest.raises(FileNotFoundError):
        read_manifest("sub")
    assert main(["build", "sub", "--plan"]) == 1
    assert capsys.readouterr().err == (
        "devmod: error: sub: no devmod.toml, and no pyproject.toml with [tool.devmod]. To write one: devmod init\n"
    )


def test_the_command_prints_the_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("devmod.toml").write_text(KERNEL + "blok = 3\nskip = 1\n")
    assert main(["build"]) == 1
    assert capsys.readouterr() == (
        "",
        "devmod: error: devmod.toml has 2 mistakes:\n"
        "devmod.toml:4: kernels.twice.blok: unknown key. Did you mean 'block'?\n"
        'devmod.toml:5: kernels.twice.skip: expected an array of strings, such as ["vulkan"], got the integer 1\n',
    )


def test_an_output_that_is_a_folder_or_an_input() -> None:
    Path("out.devmod").mkdir()
    Path("k.devmod").write_text("")
    source = '[kernels.k]\nsources = [{ path = "./k.devmod", language = "cl" }]\n'
    assert (
        message_of('output = "out.devmod"\n' + KERNEL)
        == "devmod.toml:1: output: 'out.devmod' is a folder; expected a file"
    )
    assert message_of('output = "sub/../k.devmod"\n' + OPENCL + source) == (
        "devmod.toml:1: output: 'k.devmod' is an input as well; the build would overwrite it"
    )


def test_a_kind_without_a_compiler(register: Callable[[str, str, object], None]) -> None:
    register(
        "devmod.targets",
        "npu",
        devmod.TargetSpec("npu", title="NPU", distribution="devmod-npu", formats=["npu"]),
    )
    assert (
        message_of('targets = ["npu"]\n' + TWICE)
        == "devmod.toml:1: targets[0]: this release of devmod has no compiler for npu"
    )


def test_a_kind_of_another_wheel_without_a_preprocessor(
    register: Callable[[str, str, object], None],
) -> None:
    """The macros and include folders of all kernels are not for it, and those of its own kernel are
    a mistake.
    """

    def spec(*preprocessed: str) -> devmod.TargetSpec:
        languages, compiler = {"npuc": "NPU C", "npus": "NPU assembly"}, "no_such_module:compile"
        return devmod.TargetSpec(
            "npu",
            title="NPU",
            distribution="devmod-npu",
            formats=["npu"],
            languages=languages,
            compiler=compiler,
            preprocessed=preprocessed,
        )

    register("devmod.targets", "npu", spec())
    Path("k.npuc").write_text("")
    Path("k.npus").write_text("")
    head = 'targets = ["npu", "opencl"]\ndefines = { WIDTH = 1 }\ninclude = ["include"]\n'
    text = (
        head
        + '[kernels.k]\nsources = ["k.npuc", "twice.cl"]\n[kernels.s]\nsources = ["k.npus"]\nskip = ["opencl"]\n'
    )
    Path("include").mkdir(exist_ok=True)
    Path("devmod.toml").write_text(text)

    def jobs() -> dict[str, tuple[int, int]]:
        return {
            job.source: (len(job.defines), len(job.include))
            for job in plan_of(read_manifest()).jobs
        }

    assert jobs() == {"k.npuc": (0, 0), "k.npus": (0, 0), "twice.cl": (1, 1)}
    assert plan_of(read_manifest()).notes == (
        "defines and include of the manifest: not used for npu, because NPU C has no preprocessor",
        "defines and include of the manifest: not used for npu, because NPU assembly has no preprocessor",
    )
    assert plan_of(read_manifest(), "opencl").notes == ()
    assert message_of(text + 'include = ["include"]\n') == (
        "devmod.toml:9: kernels.s.include: 'k.npus' is NPU assembly, which has no preprocessor; move the key to the targets that have one: "
        "[kernels.s.target.KIND]"
    )
    assert message_of(text + "[target.npu]\ndefines = { C = 1 }\n") == (
        "devmod.toml:10: target.npu.defines: npu takes NPU C (.npuc), NPU assembly (.npus), which has no preprocessor; remove the key"
    )
    devmod.register("devmod.targets", "npu", spec("NPU C"), replace=True)
    Path("devmod.toml").write_text(text)
    assert jobs() == {"k.npuc": (1, 1), "k.npus": (0, 0), "twice.cl": (1, 1)}


def test_a_kind_of_another_wheel(register: Callable[[str, str, object], None]) -> None:
    """Its targets are split by its compiler; if that is broken, by architecture, and its jobs
    report the reason.
    """
    spec = devmod.TargetSpec(
        "npu",
        title="NPU",
        distribution="devmod-npu",
        formats=["npu"],
        languages={"npuc": "NPU C"},
        compiler="no_such_module:compile",
    )
    register("devmod.targets", "npu", spec)
    Path("k.npuc").write_text("")
    Path("devmod.toml").write_text(
        'targets = ["npu -arch=a,b -fast=1"]\n[kernels.k]\nsources = ["k.npuc"]\n'
    )
    assert [job.target for job in plan_of(read_manifest()).jobs] == [
        "npu -arch=a -fast=1",
        "npu -arch=b -fast=1",
    ]
    text = 'targets = ["npu"]\n[kernels.k]\nsources = ["k.npuc"]\n'
    Path("devmod.toml").write_text(text)
    assert [job.target for job in plan_of(read_manifest()).jobs] == [
        "npu"
    ]  # the spec does not require an architecture
    spec.needs_arch["NPU C"] = "a,b"
    assert message_of(text) == (
        "devmod.toml:1: targets[0]: the target 'npu' names no architecture. Name those of the devices: 'npu -arch=a,b'"
    )
    assert (
        message_of('targets = ["npuu"]\n' + TWICE)
        == "devmod.toml:1: targets[0]: unknown target 'npuu'. Did you mean 'npu'?"
    )
