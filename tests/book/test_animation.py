"""The animation of the live translator: it moves, lasts long enough to be read, and is small."""

from PIL import Image, ImageSequence

from book.animation import PATH


def test_the_animation_moves_and_is_small():
    assert PATH.stat().st_size < 2_000_000
    with Image.open(PATH) as picture:
        frames = [(frame.convert("L").tobytes(), frame.info["duration"]) for frame in ImageSequence.Iterator(picture)]
    images, durations = zip(*frames, strict=True)
    assert len(set(images)) > 8
    assert 10_000 < sum(durations) < 20_000
