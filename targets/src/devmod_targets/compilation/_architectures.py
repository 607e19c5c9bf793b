"""The check that a target names an architecture where its kind needs one."""

from __future__ import annotations

from devmod import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import TargetSpec


def architecture_problem(spec: TargetSpec, target: Target, language: str, *, assumed: bool = False) -> str:
    """Return the message that a target must name an architecture; "" if it names one, or need not for sources of the language.

    Parameters
    ----------
    spec, target
        The target, and the spec of its kind.
    language
        The language.
    assumed
        Whether the caller of `devmod.compile` may have omitted another language.
    """
    example = spec.needs_arch.get(language)
    if target.archs or not example or dict(target.options).get("format") in spec.source_formats:
        return ""
    text = f"the target {str(target)!r} names no architecture. Name those of the devices: {str(Target(spec.kind, arch=example))!r}"
    formats = [spec.suffixes.get(suffix) for suffix, name in spec.languages.items() if name == language]
    kept = next((fmt for fmt in formats if fmt in spec.source_formats), "")
    if kept:
        text += f". Or keep the source, which the receiver compiles: '{spec.kind} -format={kept}'"
    others = [name for name in dict.fromkeys(spec.languages.values()) if name not in spec.needs_arch]
    hint = f": pass the language, as in devmod.compile(…, language={others[0]!r})" if others and assumed else ""
    return text + (f". {', '.join(others)} need none{hint}" if others else "")
