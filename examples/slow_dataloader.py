"""A loop that waits for its data: each sample is a compressed image file that is really decoded.

Run:  traceml run examples/slow_dataloader.py -- --workers 0
      traceml run examples/slow_dataloader.py -- --workers 2
The verdict should move away from INPUT-BOUND as the workers take over the decoding, given cores to do it.
"""

import argparse
import io
import zlib

import torch
import traceml_ai as traceml
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class CompressedDigits(Dataset):
    """Digits, enlarged and zlib-compressed in memory, as a data set on a disk would be.

    Each item costs inflating and parsing 1 MiB, then an average pool down to (1, 32, 32) float32.
    """

    SIDE = 512

    def __init__(self, samples: int) -> None:
        digits = load_digits()
        generator = torch.Generator().manual_seed(0)
        self.files: list[bytes] = []
        self.labels: list[int] = []
        for image, label in zip(digits.images[:samples], digits.target[:samples], strict=True):
            small = torch.tensor(image, dtype=torch.float32)[None, None] / 16.0
            large = nn.functional.interpolate(small, size=(self.SIDE, self.SIDE), mode="bilinear")
            large += 0.05 * torch.rand(large.shape, generator=generator)
            buffer = io.BytesIO()
            torch.save(large[0], buffer)
            self.files.append(zlib.compress(buffer.getvalue(), level=1))
            self.labels.append(int(label))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = torch.load(io.BytesIO(zlib.decompress(self.files[index])), weights_only=True)
        return nn.functional.avg_pool2d(image, self.SIDE // 32), self.labels[index]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        CompressedDigits(samples=128), batch_size=16, shuffle=True, drop_last=True, num_workers=arguments.workers
    )
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10)
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_function = nn.CrossEntropyLoss()

    traceml.init()
    steps = 0
    while steps < arguments.steps:
        for images, labels in loader:
            with traceml.trace_step(model):
                optimizer.zero_grad(set_to_none=True)
                loss = loss_function(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
            steps += 1
            if steps == arguments.steps:
                break
    print(f"{steps} steps   loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
