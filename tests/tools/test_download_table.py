import os
import re

import pytest

from modeling import config as config_lib
from tasks.classification import glue
from tools import download_table


def test_table_names_all_that_was_released():
    items = download_table.ITEMS.values()
    kinds = [item.kind for item in items]
    assert kinds.count(download_table.CHECKPOINT) == 9 + 24
    assert len({item.folder for item in download_table.MINIATURES}) == 24
    archives = {item.urls[0].rpartition("/")[2] for item in items}
    assert {
        "wwm_cased_L-24_H-1024_A-16.zip",
        "multilingual_L-12_H-768_A-12.zip",
        "chinese_L-12_H-768_A-12.zip",
        "all_bert_models.zip",
    } <= archives
    for item in items:
        assert all(url.startswith("https://") for url in item.urls)
        assert len(item.urls) == 1 or item.kind == download_table.FILES


def test_two_items_share_no_folder_but_that_of_squad():
    folders = [item.folder for item in download_table.ITEMS.values()]
    assert {f for f in folders if folders.count(f) > 1} == {"squad"}


def test_folder_of_a_glue_task_is_its_name():
    for info in glue.DATASETS.values():
        (item,) = download_table.find(info.name)
        assert item.folder == f"glue/{info.name}"
        for split in (info.train, *info.dev, *info.test):
            if split.required:
                assert split.files[0] in item.files


def test_checkpoint_has_the_shipped_configurations_sizes():
    folder = os.path.join(os.path.dirname(config_lib.__file__), "configs")
    for item in download_table.ITEMS.values():
        if item.kind != download_table.CHECKPOINT:
            continue
        name = re.sub("_2020$|_wwm$", "", item.name)
        config = config_lib.BertConfig.from_json_file(
            os.path.join(folder, f"{name}.json")
        )
        sizes = re.search(r"_L-(\d+)_H-(\d+)_A-(\d+)", item.folder).groups()
        assert tuple(map(int, sizes)) == (
            config.num_hidden_layers,
            config.hidden_size,
            config.num_attention_heads,
        )


def test_release_name_of_two_archives_is_the_older():
    (item,) = download_table.find("uncased_L-12_H-768_A-12")
    assert item.name == "bert_base_uncased"
    assert "2018_10_18" in item.urls[0]


def test_list_names_everything():
    first_words = {
        line.split()[0] for line in download_table.listing().splitlines()
    }
    assert first_words == {*download_table.ITEMS, *download_table.GROUPS}


def test_the_nearest_name_is_suggested():
    with pytest.raises(ValueError, match=r"Did you mean bert_base_uncased\?"):
        download_table.find("bert_bas_uncased")
