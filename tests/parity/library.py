"""Hugging Face's transformers, the one installed or else that of build/transformers, where
scripts/setup test puts it. Debian's PyTorch 1.13 lacks some words that it wants while it
loads a model; they are given to PyTorch here, in the meaning that PyTorch 2 has for them."""
import pathlib
import sys
import types

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "build/transformers"


def transformers():
    """None where it or PyTorch is not installed."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    try:
        import torch
        if not hasattr(torch, "compiler"):
            _as_pytorch_2(torch)
        import transformers as found
        return found
    except ImportError:
        return None


def _as_pytorch_2(torch):
    def disable(function=None, **_):
        return function or (lambda whole: whole)

    torch.compiler = types.SimpleNamespace(disable=disable, is_compiling=lambda: False)
    torch.distributed.tensor = types.ModuleType("torch.distributed.tensor")
    sys.modules["torch.distributed.tensor"] = torch.distributed.tensor
    torch.float8_e4m3fn, torch.float8_e5m2 = object(), object()  # no tensor has them
    module = torch.nn.Module
    named_parameters, load_state_dict = module.named_parameters, module.load_state_dict

    def all_named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        if remove_duplicate:
            yield from named_parameters(self, prefix, recurse)
            return
        for path, part in self.named_modules(prefix=prefix, remove_duplicate=False):
            for name, weight in part._parameters.items():
                if weight is not None:
                    yield f"{path}.{name}" if path else name, weight

    def load_or_assign(self, state_dict, strict=True, assign=False):
        if not assign:
            return load_state_dict(self, state_dict, strict)
        for name, value in state_dict.items():  # of this module itself, as transformers calls it
            here = self._parameters if name in self._parameters else self._buffers
            if here is self._parameters:
                value = torch.nn.Parameter(value, requires_grad=here[name].requires_grad)
            here[name] = value
        return None

    module.named_parameters, module.load_state_dict = all_named_parameters, load_or_assign
