"""The workload llama of bench/luf/run: several of llama.cpp at once generate tokens with one mapped model."""

import shutil
import subprocess
from pathlib import Path

import lab
import model

# One more CPU does nothing, and is where the kernel reclaims.
PROCESSES = 3
# Each reads the whole model: some seconds when the CPU is emulated.
TOKENS = 4


class Llama:
    """Each generates the same tokens, and checks that they are those of the first run."""

    programs = ["around"]

    def __init__(self, memory, settings):
        self.memory = memory
        self.settings = ["mount -o ro /dev/vda /mnt", *settings]

    def disk(self):
        """With the program too: in the first memory of the guest it would take what is to be scarce."""
        return lab.disk("llama", 400, fill=self.fill)

    def fill(self, folder):
        built = subprocess.run([lab.ROOT / "scripts/luf-llama"], check=True, stdout=subprocess.PIPE, text=True, cwd=lab.ROOT)
        shutil.copy(lab.ROOT / built.stdout.strip(), Path(folder) / "tokens")
        model.write(Path(folder) / "model.gguf")

    def line(self, luf, seed, shorter, threads):
        tokens = max(1, TOKENS // shorter)
        return f"/around {luf} {PROCESSES} /mnt/tokens /mnt/model.gguf {tokens} /tmp/tokens-{tokens}"
