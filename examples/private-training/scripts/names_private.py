"""A recurrent network that guesses the language of a name from its letters, trained with differential privacy."""

import evertally.torch
import torch
from torch import nn

EPOCHS, BATCH, LENGTH = 4, 64, 10
ENDINGS = ["ova", "ini", "sen", "akis", "ez"]


class Names(torch.utils.data.Dataset):
    """Synthetic names of five languages, which differ in their endings, padded to one length."""

    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        random = torch.Generator().manual_seed(1000 * self.seed + number)
        letters = torch.randint(0, 26, (2 + number % 4,), generator=random)
        target = number % len(ENDINGS)
        name = "".join(chr(97 + letter) for letter in letters) + ENDINGS[target]
        return torch.tensor([ord(letter) - 96 for letter in name.rjust(LENGTH, "`")]), torch.tensor(target)


class CharNNClassifier(nn.Module):
    def __init__(self, embedding_size=16, hidden_size=32):
        super().__init__()
        self.embedding = nn.Embedding(27, embedding_size)
        self.lstm = nn.LSTM(embedding_size, hidden_size, batch_first=True)
        self.out_layer = nn.Linear(hidden_size, len(ENDINGS))

    def forward(self, names):
        outputs, _ = self.lstm(self.embedding(names))
        return self.out_layer(outputs[:, -1])


def train(model, criterion, optimizer, train_loader, epoch, device):
    model.train()
    losses = optimizer.secret_losses(train_loader)
    print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}")


def test(model, test_loader, device):
    model.eval()
    with torch.no_grad():
        hits = [(model(x.to(device)).argmax(dim=1).cpu() == y).float() for x, y in test_loader]
    return torch.cat(hits).mean().item()


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    train_set, test_set = Names(1280, seed=2), Names(300, seed=3)
    test_loader = torch.utils.data.DataLoader(test_set, batch_size=100)
    model = CharNNClassifier().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    plan = evertally.training.plan_training(len(train_set), BATCH, EPOCHS, epsilon=4.0, delta=1e-5).plan
    key = evertally.SecretKey.generate()
    optimizer = evertally.torch.make_private(model, criterion, optimizer, train_set, plan, key, "names")
    for epoch, train_loader in optimizer.epochs():
        train(model, criterion, optimizer, train_loader, epoch, device)
    print(f"accuracy {test(model, test_loader, device):.2f}")


if __name__ == "__main__":
    main()
