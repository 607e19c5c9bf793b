"""The names for authors of other wheels, in addition to the public names of devmod: backends,
compilers, readers.

A backend whose modules run derives from the classes of `devmod_runtime`. `devmod_targets.authoring`
is the module for authors of compilers.
"""

from __future__ import annotations

from devmod import _make_lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._arrays.elements import bytes_of as bytes_of
    from devmod._arrays.elements import dtype_name_of as dtype_name_of
    from devmod._arrays.elements import elements_of as elements_of
    from devmod._arrays.elements import scalar_shape as scalar_shape
    from devmod._arrays.empty import lock_pages_with as lock_pages_with
    from devmod._arrays.host_array import HostArray as HostArray
    from devmod._files.bundle_file import loads_own as loads_own
    from devmod._files.carried import verify_rest as verify_rest
    from devmod._files.tuning_files import read_tuning_file as read_tuning_file
    from devmod._formats.blobs import COMPRESS_LEVELS as COMPRESS_LEVELS
    from devmod._formats.index import HEADER as HEADER
    from devmod._formats.msgpack import Reader as Reader
    from devmod._formats.raw import function_to_json as function_to_json
    from devmod._formats.raw import read_payload as read_payload
    from devmod._formats.trust import MAX_SIGNATURE as MAX_SIGNATURE
    from devmod._formats.trust import check_raw as check_raw
    from devmod._formats.trust import check_raw_file as check_raw_file
    from devmod._formats.trust import policies as policies
    from devmod._formats.trust import read_signature as read_signature
    from devmod._formats.tuning import pack_records as pack_records
    from devmod._formats.wire import decode as decode
    from devmod._modules.choice import interface_of as interface_of
    from devmod._modules.choice import is_tuned as is_tuned
    from devmod._modules.choice import unknown_needs as unknown_needs
    from devmod._modules.const_loader import constant_identity as constant_identity
    from devmod._modules.create import create_own as create_own
    from devmod._modules.create import load_stored as load_stored
    from devmod._modules.create import module_of as module_of
    from devmod._modules.fallback import FallbackModule as FallbackModule
    from devmod._modules.fitting import fitting_devices as fitting_devices
    from devmod._modules.module import BINARY_SERIALIZABLE as BINARY_SERIALIZABLE
    from devmod._modules.module import RUNNABLE as RUNNABLE
    from devmod._modules.module import usable_functions as usable_functions
    from devmod._modules.module import walk as walk
    from devmod._modules.payload import PayloadModule as PayloadModule
    from devmod._modules.payload import check_fmap as check_fmap
    from devmod._modules.programs import newer_program as newer_program
    from devmod._modules.programs import read_program as read_program
    from devmod._modules.variant import payload_of as payload_of
    from devmod._plugins.devices import default_device as default_device
    from devmod._plugins.lookup import explain_import as explain_import
    from devmod._plugins.specs import find_spec as find_spec
    from devmod._util.atomic import changing as changing
    from devmod._util.atomic import path_problem as path_problem
    from devmod._util.atomic import replacing as replacing
    from devmod._util.buffers import read_only_view as read_only_view
    from devmod._util.cache_files import enforce_bound as enforce_bound
    from devmod._util.cache_folder import cache_dir as cache_dir
    from devmod._util.cache_folder import folder_problem as folder_problem
    from devmod._util.cache_folder import read_private as read_private
    from devmod._util.cache_folder import write_private as write_private
    from devmod._util.deprecation import warn_deprecated as warn_deprecated
    from devmod._util.disk_cache import DiskCache as DiskCache
    from devmod._util.disk_cache import size_bound as size_bound
    from devmod._util.environment import debug as debug
    from devmod._util.environment import environment_flag as environment_flag
    from devmod._util.environment import environment_text as environment_text
    from devmod._util.html import html_table as html_table
    from devmod._util.locks import RLock as RLock
    from devmod._util.numpy import np as np
    from devmod._util.once import Once as Once
    from devmod._util.once import release_import_lock as release_import_lock
    from devmod._util.pickling import ProcessLocal as ProcessLocal
    from devmod._util.program_cache import program_cache as program_cache
    from devmod._util.programs import find_program as find_program
    from devmod._util.regular_files import absolute as absolute
    from devmod._util.regular_files import file_name as file_name
    from devmod._util.regular_files import open_regular as open_regular
    from devmod._util.temporary import temporary_folder as temporary_folder
    from devmod._util.text import duration_text as duration_text
    from devmod._util.text import escape as escape
    from devmod._util.text import escape_line as escape_line
    from devmod._util.text import is_valid_name as is_valid_name
    from devmod._values.code import Binary as Binary
    from devmod._values.code import Code as Code
    from devmod._values.code import Source as Source
    from devmod._values.dtypes import STRUCT_FORMATS as STRUCT_FORMATS
    from devmod._values.dtypes import ConversionError as ConversionError
    from devmod._values.dtypes import array_bytes as array_bytes
    from devmod._values.dtypes import describe_value as describe_value
    from devmod._values.dtypes import dtype_name as dtype_name
    from devmod._values.dtypes import is_packed as is_packed
    from devmod._values.dtypes import parse_dtype as parse_dtype
    from devmod._values.expressions import COMPARISONS as COMPARISONS
    from devmod._values.expressions import OPERATORS as OPERATORS
    from devmod._values.expressions import Expression as Expression
    from devmod._values.expressions import ExpressionError as ExpressionError
    from devmod._values.expressions import evaluate as evaluate
    from devmod._values.expressions import names_in as names_in
    from devmod._values.expressions import read_expression as read_expression
    from devmod._values.features import FEATURES as FEATURES
    from devmod._values.features import TUNED as TUNED
    from devmod._values.image_formats import ADDRESS_MODES as ADDRESS_MODES
    from devmod._values.image_formats import FILTERS as FILTERS
    from devmod._values.image_formats import IMAGE_FORMATS as IMAGE_FORMATS
    from devmod._values.image_formats import ImageFormat as ImageFormat
    from devmod._values.info import block_text as block_text
    from devmod._values.info import interface_text as interface_text
    from devmod._values.limits import LIMITS as LIMITS
    from devmod._values.param import LAUNCH_KEYWORDS as LAUNCH_KEYWORDS
    from devmod._values.param import MAX_EXPRESSION as MAX_EXPRESSION
    from devmod._values.param import declaration_text as declaration_text
    from devmod._values.param import expression_text as expression_text
    from devmod._values.param import is_value as is_value
    from devmod._values.param import members_by_value as members_by_value
    from devmod._values.param import numpy_dtype as numpy_dtype
    from devmod._values.param import type_text as type_text
    from devmod._values.payload import Payload as Payload
    from devmod._values.pipeline_constants import PipelineConstant as PipelineConstant
    from devmod._values.pipeline_constants import constants_of as constants_of
    from devmod._values.records import join_records as join_records
    from devmod._values.records import read_records as read_records
    from devmod._values.requirements import Capabilities as Capabilities
    from devmod._values.requirements import Requirements as Requirements
    from devmod._values.requirements import device_of_call as device_of_call
    from devmod._values.requirements import fits as fits
    from devmod._values.requirements import requirements as requirements
    from devmod._values.tags import COOPERATIVE_TAG as COOPERATIVE_TAG
    from devmod._values.tags import DYNAMIC_SHARED_MEMORY as DYNAMIC_SHARED_MEMORY
    from devmod._values.tags import GRID_TAGS as GRID_TAGS
    from devmod._values.tags import PROGRAMMATIC_TAG as PROGRAMMATIC_TAG
    from devmod._values.tags import REQUIRED_BLOCK_TAG as REQUIRED_BLOCK_TAG
    from devmod._values.tags import WRITE_ACCESS_TAG as WRITE_ACCESS_TAG
    from devmod._values.tags import tag_problem as tag_problem
    from devmod._values.tags import value_tags as value_tags
    from devmod._values.tuning import MAX_VARIANTS as MAX_VARIANTS
    from devmod._values.tuning import Tuning as Tuning
    from devmod._values.tuning import Variant as Variant
    from devmod._values.tuning import integer_arguments as integer_arguments
    from devmod._values.tuning import interface_with_block as interface_with_block
    from devmod._values.tuning import tuning_of as tuning_of
    from devmod._values.tuning import variant_interface as variant_interface
    from devmod._values.tuning import variants_on as variants_on
    from devmod._values.value import Place as Place
    from devmod._values.value import Value as Value
    from devmod.errors import compile_error as compile_error
    from devmod.errors import function_not_found as function_not_found
    from devmod.targets.forms import detect_form as detect_form

#: The names of each module.
_NAMES = {
    "_arrays.elements": "bytes_of dtype_name_of elements_of scalar_shape",
    "_arrays.empty": "lock_pages_with",
    "_arrays.host_array": "HostArray",
    "_files.bundle_file": "loads_own",
    "_files.carried": "verify_rest",
    "_files.tuning_files": "read_tuning_file",
    "_formats.blobs": "COMPRESS_LEVELS",
    "_formats.index": "HEADER",
    "_formats.msgpack": "Reader",
    "_formats.raw": "function_to_json read_payload",
    "_formats.trust": "MAX_SIGNATURE check_raw check_raw_file policies read_signature",
    "_formats.tuning": "pack_records",
    "_formats.wire": "decode",
    "_modules.choice": "interface_of is_tuned unknown_needs",
    "_modules.const_loader": "constant_identity",
    "_modules.create": "create_own load_stored module_of",
    "_modules.fallback": "FallbackModule",
    "_modules.fitting": "fitting_devices",
    "_modules.module": "BINARY_SERIALIZABLE RUNNABLE usable_functions walk",
    "_modules.payload": "PayloadModule check_fmap",
    "_modules.programs": "newer_program read_program",
    "_modules.variant": "payload_of",
    "_plugins.devices": "default_device",
    "_plugins.lookup": "explain_import",
    "_plugins.specs": "find_spec",
    "_util.atomic": "changing path_problem replacing",
    "_util.buffers": "read_only_view",
    "_util.cache_files": "enforce_bound",
    "_util.cache_folder": "cache_dir folder_problem read_private write_private",
    "_util.deprecation": "warn_deprecated",
    "_util.disk_cache": "DiskCache size_bound",
    "_util.environment": "debug environment_flag environment_text",
    "_util.html": "html_table",
    "_util.numpy": "np",
    "_util.locks": "RLock",
    "_util.once": "Once release_import_lock",
    "_util.pickling": "ProcessLocal",
    "_util.program_cache": "program_cache",
    "_util.programs": "find_program",
    "_util.regular_files": "absolute file_name open_regular",
    "_util.temporary": "temporary_folder",
    "_util.text": "duration_text escape escape_line is_valid_name",
    "_values.dtypes": "STRUCT_FORMATS ConversionError array_bytes describe_value dtype_name is_packed parse_dtype",
    "_values.expressions": "COMPARISONS OPERATORS Expression ExpressionError evaluate names_in read_expression",
    "_values.features": "FEATURES TUNED",
    "_values.image_formats": "ADDRESS_MODES FILTERS IMAGE_FORMATS ImageFormat",
    "_values.info": "block_text interface_text",
    "_values.limits": "LIMITS",
    "_values.param": "LAUNCH_KEYWORDS MAX_EXPRESSION declaration_text expression_text is_value members_by_value numpy_dtype type_text",
    "_values.payload": "Payload",
    "_values.pipeline_constants": "PipelineConstant constants_of",
    "_values.records": "join_records read_records",
    "_values.requirements": "Capabilities Requirements device_of_call fits requirements",
    "_values.tags": (
        "COOPERATIVE_TAG DYNAMIC_SHARED_MEMORY GRID_TAGS PROGRAMMATIC_TAG REQUIRED_BLOCK_TAG WRITE_ACCESS_TAG tag_problem value_tags"
    ),
    "_values.tuning": "MAX_VARIANTS Tuning Variant integer_arguments interface_with_block tuning_of variant_interface variants_on",
    "_values.value": "Value",
    "errors": "compile_error function_not_found",
    "targets.forms": "detect_form",
}
_make_lazy(globals(), _NAMES)
