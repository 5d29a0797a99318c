"""A small CNN on scikit-learn's digits: the two lines that TraceML needs, and one answer.

Run:  traceml run examples/quickstart.py            (CPU or GPU, a few seconds)
The data set (1,797 real 8x8 images) ships with scikit-learn; nothing is downloaded.
"""

import torch
import traceml_ai as traceml
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 10
BATCH_SIZE = 64


def make_loader() -> DataLoader:
    """Digits as float images in [0, 1] of shape (1, 8, 8), with their labels."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
    labels = torch.tensor(digits.target)
    return DataLoader(TensorDataset(images, labels), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)


def make_model() -> nn.Module:
    """Two convolutions and a linear head: images (N, 1, 8, 8) to logits (N, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = make_loader()
    model = make_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loss_function = nn.CrossEntropyLoss()

    traceml.init()  # line 1: hooks the loader, the model, backward and the optimizer

    for epoch in range(EPOCHS):
        correct = 0
        for images, labels in loader:
            with traceml.trace_step(model):  # line 2: what one step is
                images, labels = images.to(device), labels.to(device)
                optimizer.zero_grad(set_to_none=True)
                logits = model(images)
                loss = loss_function(logits, labels)
                loss.backward()
                optimizer.step()
            correct += (logits.argmax(dim=1) == labels).sum()
        accuracy = correct.item() / (len(loader) * BATCH_SIZE)
        print(f"epoch {epoch + 1:2d}   loss {loss.item():.4f}   accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
