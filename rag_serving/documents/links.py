"""Where the documents of folders on this machine are, for whoever asks at its terminal."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rag_serving.artifacts.store import Store, StoreError, read_json
from rag_serving.config.loading import Config
from rag_serving.config.sources import Files

_PAGE = "/p/"


class FileLinks:
    """Leads from `/p/ID#anchor` to `file:///folder/name#anchor`; other addresses, and members of archives, stay."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._files: Mapping[str, Path] = {}

    def __call__(self, url: str) -> str:
        page, mark, anchor = url.partition("#")
        if not page.startswith(_PAGE):
            return url
        page_id = page.removeprefix(_PAGE)
        if page_id not in self._files:  # it may be newer
            self._files = self._read()
        file = self._files.get(page_id)
        return f"{file.as_uri()}{mark}{anchor}" if file and file.is_file() else url

    def _read(self) -> dict[str, Path]:
        store, files = Store(self._config.home), dict[str, Path]()
        for key, source in self._config.sources.items():
            if isinstance(source, Files) and source.path and source.path.is_dir():
                with suppress(StoreError, KeyError, TypeError):
                    seen = read_json(store.source(key) / "sync_state.json")["state"]["files"]
                    folder = source.path.resolve()
                    files |= {f"{source.id_prefix}{one[0]}": folder / name for name, one in seen.items()}
        return files
