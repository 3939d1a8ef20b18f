"""A convolutional network that tells apart pictures, trained with differential privacy."""

import evertally.torch
import numpy as np
import torch
from torch import nn

EPOCHS, BATCH = 4, 64


class Pictures(torch.utils.data.Dataset):
    """Synthetic pictures of 28 × 28 pixels: bars in ten places."""

    def __init__(self, count, seed):
        random = torch.Generator().manual_seed(seed)
        self.targets = torch.randint(0, 10, (count,), generator=random)
        self.data = 0.3 * torch.randn(count, 1, 28, 28, generator=random)
        for picture, target in zip(self.data, self.targets):
            picture[0, :, 2 * target : 2 * target + 4] += 1

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, number):
        return self.data[number], self.targets[number]


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(32 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10),
    )


def train(model, loader, optimizer, criterion, device):
    model.train()
    losses = optimizer.secret_losses(loader)
    return np.mean(losses)


def accuracy(model, loader, device):
    model.eval()
    with torch.no_grad():
        hits = [(model(data.to(device)).argmax(dim=1).cpu() == target).float() for data, target in loader]
    return torch.cat(hits).mean().item()


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    train_set, test_set = Pictures(2048, seed=2), Pictures(512, seed=3)
    test_loader = torch.utils.data.DataLoader(test_set, batch_size=256)
    model = network().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    plan = evertally.training.plan_training(len(train_set), BATCH, EPOCHS, epsilon=4.0, delta=1e-5).plan
    key = evertally.SecretKey.generate()
    optimizer = evertally.torch.make_private(model, criterion, optimizer, train_set, plan, key, "images")
    for epoch, train_loader in optimizer.epochs():
        loss = train(model, train_loader, optimizer, criterion, device)
        print(f"epoch {epoch}: loss {loss:.3f}")
    print(f"accuracy {accuracy(model, test_loader, device):.2f}")


if __name__ == "__main__":
    main()
