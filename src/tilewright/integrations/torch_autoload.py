"""What `import torch` calls (entry point `torch.backends`): nothing unless TILEWRIGHT_INDUCTOR is set.

Every program that imports torch where tilewright is installed pays for this module, so it imports nothing.
"""


def autoload() -> None:
    """Install tilewright as Inductor's Triton where the environment asks for it."""
    import os

    wanted = os.environ.get("TILEWRIGHT_INDUCTOR", "")
    if wanted.lower() in ("", "0", "false", "off", "no"):
        return
    from tilewright.integrations.inductor import state

    state.install_asked(wanted)
