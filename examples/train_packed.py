"""The training of train_images.py over a pack of the same photos.

    stoker pack FOLDER PACK --size 256
    python train_packed.py PACK [--workers 2] [--epochs 3] [--step-ms 80]

Photos were decoded and resized once, by `stoker pack`; what is random is done anew each time.
"""

from PIL import Image
from train_images import main

from stoker.loader.faces import PackDataset


class PackedPhotos(PackDataset):
    """Image and label, as the data set of photos gives them."""

    def __init__(self, folder, transform):
        super().__init__(folder)
        self.classes = self.pack.classes
        self.transform = transform

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return self.transform(Image.fromarray(image)), label


if __name__ == "__main__":
    main(PackedPhotos)
