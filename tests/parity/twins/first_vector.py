# SPDX-License-Identifier: Apache-2.0
"""What a Python program does from its start to a sentence's vector, for ./bench minilm-start:

    first_vector.py FOLDER THREADS TEXT"""

import json
import sys

import torch
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer

folder, threads, text = sys.argv[1:]
torch.set_num_threads(int(threads))
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
with torch.inference_mode():
    hidden = model(**tokenizer([text], return_tensors="pt")).last_hidden_state
print(json.dumps({"embedding": F.normalize(hidden.mean(1)).squeeze(0).tolist()}))
