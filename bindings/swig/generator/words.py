"""Names that some language keeps for itself. SWIG renames a few of them in silence, so none may stand in a header."""

import keyword

CPP = """
alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case catch
char char8_t char16_t char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
co_return co_yield decltype default delete do double dynamic_cast else enum explicit export extern false float for
friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
public reflexpr register reinterpret_cast requires return short signed sizeof static static_assert static_cast
struct switch synchronized template this thread_local throw true try typedef typeid typename union unsigned using
virtual void volatile wchar_t while xor xor_eq
""".split()
JULIA = """
abstract as baremodule begin break catch const continue do else elseif end export false finally for function global
if import in isa let local macro module mutable outer primitive public quote return struct true try type using where
while
""".split()
RUST = """
Self abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if
impl in let loop macro macro_rules match mod move mut override priv pub raw ref return safe self static struct super
trait true try type typeof union unsafe unsized use virtual where while yield
""".split()

RESERVED = frozenset({*keyword.kwlist, *keyword.softkwlist, *CPP, *JULIA, *RUST})
