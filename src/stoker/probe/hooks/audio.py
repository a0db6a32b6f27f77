"""soundfile, torchaudio and librosa: reading is decoding."""

from stoker.probe.hooks.calls import Call, Calls

CALLS: Calls = {
    "soundfile": {
        "read": Call("decode (soundfile)", path=0),
        "SoundFile.__init__": Call("open (soundfile)", path=1),
        "SoundFile.read": Call("decode (soundfile)"),
        "SoundFile.seek": Call("seek (soundfile)"),
    },
    "torchaudio": {"load": Call("decode (torchaudio)", path=0)},
    "librosa.core.audio": {
        "load": Call("decode (librosa)", path=0),
        "resample": Call("resample (librosa)"),
    },
    "librosa.feature.spectral": {"melspectrogram": Call("spectrum (librosa)")},
}
