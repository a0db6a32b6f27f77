"""soundfile, torchaudio, torchcodec and librosa: reading is decoding."""

from stoker.probe.hooks.calls import Call, Calls
from stoker.probe.hooks.counts import SOUND, SOUND_DATA, SOUND_WITH_RATE

CALLS: Calls = {
    "soundfile": {
        "read": Call("decode (soundfile)", path=0),
        "SoundFile.__init__": Call("open (soundfile)", path=1),
        "SoundFile.read": Call("decode (soundfile)", decodes=SOUND),
        "SoundFile.seek": Call("seek (soundfile)"),
    },
    "torchaudio": {"load": Call("decode (torchaudio)", path=0, decodes=SOUND_WITH_RATE)},
    "torchcodec.decoders._audio_decoder": {
        "AudioDecoder.__init__": Call("open (torchcodec)", path=1),
        "AudioDecoder.get_samples_played_in_range": Call("decode (torchcodec)", decodes=SOUND_DATA),
    },
    "librosa.core.audio": {
        "load": Call("decode (librosa)", path=0, decodes=SOUND_WITH_RATE),
        "resample": Call("resample (librosa)"),
    },
    "librosa.feature.spectral": {"melspectrogram": Call("spectrum (librosa)")},
}
