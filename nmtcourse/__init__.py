"""What only the course needs: teaching, homework, explorer, the toy grammar, and recipes.

To import it adds to the core what is named here, so that settings can name it.
"""

from nmtlib.registry import add

add("recipes", course="nmtcourse.recipes.recipe:course")
add("presets", recipes="nmtcourse.recipes.presets")
add("corpora", iwslt14_de_en="nmtcourse.recipes.iwslt:IWSLT14")
add("corpora", multi30k_captions="nmtcourse.recipes.monolingual:CAPTIONS")
READERS = "nmtcourse.formats.readers"
add("readers", csv=f"{READERS}:read_csv", tmx=f"{READERS}:read_tmx", xlf=f"{READERS}:read_xliff")
add("readers", json=f"{READERS}:read_json", jsonl=f"{READERS}:read_jsonl")
add("readers", xliff=f"{READERS}:read_xliff")
