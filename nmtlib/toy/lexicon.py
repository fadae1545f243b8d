"""The words: one table a word class, one row a concept, the three languages side by side.

German nouns come with article and plural, German verbs with their principal parts (infinitive,
third person, perfect) as in a school book.  A noun without a plural is not counted; one without a
measure word neither.
"""

from __future__ import annotations

from dataclasses import dataclass

NOUN_TABLE = """
man       | der Mann Männer           | man men              | 个 男人   | adult
woman     | die Frau Frauen           | woman women          | 个 女人   | adult
teacher   | der Lehrer Lehrer         | teacher teachers     | 位 老师   | adult
doctor    | die Ärztin Ärztinnen      | doctor doctors       | 位 医生   | adult
neighbour | die Nachbarin Nachbarinnen | neighbour neighbours | 位 邻居   | adult
child     | das Kind Kinder           | child children       | 个 孩子   | young
boy       | der Junge Jungen          | boy boys             | 个 男孩   | young weak
girl      | das Mädchen Mädchen       | girl girls           | 个 女孩   | young
mother    | die Mutter                | mother               | 妈妈      | kin
father    | der Vater                 | father               | 爸爸      | kin
son       | der Sohn                  | son                  | 儿子      | kin
daughter  | die Tochter               | daughter             | 女儿      | kin
dog       | der Hund Hunde            | dog dogs             | 只 狗     | pet animal
cat       | die Katze Katzen          | cat cats             | 只 猫     | pet animal
horse     | das Pferd Pferde          | horse horses         | 匹 马     | animal
cow       | die Kuh Kühe              | cow cows             | 头 牛     | animal
bird      | der Vogel Vögel           | bird birds           | 只 鸟     | animal
apple     | der Apfel Äpfel           | apple apples         | 个 苹果   | snack
banana    | die Banane Bananen        | banana bananas       | 根 香蕉   | snack
egg       | das Ei Eier               | egg eggs             | 个 鸡蛋   | snack
cake      | der Kuchen                | cake                 | 个 蛋糕   |
bread     | das Brot                  | bread                | 面包      | food
meat      | das Fleisch               | meat                 | 肉        | food
fish      | der Fisch                 | fish                 | 鱼        | food
soup      | die Suppe                 | soup                 | 汤        |
rice      | der Reis                  | rice                 | 米饭      | food
water     | das Wasser                | water                | 水        | drink
milk      | die Milch                 | milk                 | 牛奶      | drink
coffee    | der Kaffee                | coffee               | 咖啡      | drink
tea       | der Tee                   | tea                  | 茶        | drink
book      | das Buch Bücher           | book books           | 本 书     | text
newspaper | die Zeitung Zeitungen     | newspaper newspapers | 份 报纸   | text
letter    | der Brief Briefe          | letter letters       | 封 信     | text
photo     | das Foto Fotos            | photo photos         | 张 照片   |
film      | der Film Filme            | film films           | 部 电影   |
car       | das Auto Autos            | car cars             | 辆 汽车   | vehicle
bicycle   | das Fahrrad Fahrräder     | bicycle bicycles     | 辆 自行车 | vehicle
table     | der Tisch Tische          | table tables         | 张 桌子   | furniture
chair     | der Stuhl Stühle          | chair chairs         | 把 椅子   | furniture
dress     | das Kleid Kleider         | dress dresses        | 条 裙子   | clothes
coat      | der Mantel Mäntel         | coat coats           | 件 大衣   | clothes
shirt     | das Hemd Hemden           | shirt shirts         | 件 衬衫   | clothes
hat       | der Hut Hüte              | hat hats             | 顶 帽子   | clothes
bag       | die Tasche Taschen        | bag bags             | 个 包     | thing
key       | der Schlüssel Schlüssel   | key keys             | 把 钥匙   | thing
watch     | die Uhr Uhren             | watch watches        | 块 手表   | thing
computer  | der Computer Computer     | computer computers   | 台 电脑   |
flower    | die Blume Blumen          | flower flowers       | 朵 花     |
house     | das Haus Häuser           | house houses         | 座 房子   |
window    | das Fenster Fenster       | window windows       | 扇 窗户   | opening
door      | die Tür Türen             | door doors           | 扇 门     | opening
German    | das Deutsch               | German               | 德语      | language
English   | das Englisch              | English              | 英语      | language
Chinese   | das Chinesisch            | Chinese              | 汉语      | language
time      | die Zeit                  | time                 | 时间      |
money     | das Geld                  | money                | 钱        |
"""

VERB_TABLE = """
sleep     | schlafen, schläft, hat geschlafen                 | sleep, slept, sleeping             | 睡觉
run       | laufen, läuft, ist gelaufen                       | run, ran, running                  | 跑步
swim      | schwimmen, schwimmt, ist geschwommen              | swim, swam, swimming               | 游泳
work      | arbeiten, arbeitet, hat gearbeitet                | work, worked, working              | 工作
play      | spielen, spielt, hat gespielt                     | play, played, playing              | 玩
football  | Fußball spielen, spielt, hat Fußball gespielt     | play, played, playing, football    | 踢 足球
dance     | tanzen, tanzt, hat getanzt                        | dance, danced, dancing             | 跳舞
sing      | singen, singt, hat gesungen                       | sing, sang, singing                | 唱歌
laugh     | lachen, lacht, hat gelacht                        | laugh, laughed, laughing           | 笑
cry       | weinen, weint, hat geweint                        | cry, cried, crying                 | 哭
shop      | ein-kaufen, kauft, hat eingekauft                 | shop, shopped, shopping            | 购物
watch_tv  | fern-sehen, sieht, hat ferngesehen                | watch, watched, watching, television | 看 电视
go        | gehen, geht, ist gegangen                         | go, went, going                    | 去
eat       | essen, isst, hat gegessen                         | eat, ate, eating                   | 吃
drink     | trinken, trinkt, hat getrunken                    | drink, drank, drinking             | 喝
buy       | kaufen, kauft, hat gekauft                        | buy, bought, buying                | 买
sell      | verkaufen, verkauft, hat verkauft                 | sell, sold, selling                | 卖
read      | lesen, liest, hat gelesen                         | read, read, reading                | 读
write     | schreiben, schreibt, hat geschrieben              | write, wrote, writing              | 写
see       | sehen, sieht, hat gesehen                         | see, saw, seeing                   | 看见
find      | finden, findet, hat gefunden                      | find, found, finding               | 找到
look_for  | suchen, sucht, hat gesucht                        | look, looked, looking, for         | 找
repair    | reparieren, repariert, hat repariert              | repair, repaired, repairing        | 修理
wash      | waschen, wäscht, hat gewaschen                    | wash, washed, washing              | 洗
open      | auf-machen, macht, hat aufgemacht                 | open, opened, opening              | 打开
close     | zu-machen, macht, hat zugemacht                   | close, closed, closing             | 关上
bake      | backen, backt, hat gebacken                       | bake, baked, baking                | 烤
cook      | kochen, kocht, hat gekocht                        | cook, cooked, cooking              | 煮
learn     | lernen, lernt, hat gelernt                        | learn, learned, learning           | 学习
speak     | sprechen, spricht, hat gesprochen                 | speak, spoke, speaking             | 说
help      | helfen, hilft, hat geholfen                       | help, helped, helping              | 帮助
visit     | besuchen, besucht, hat besucht                    | visit, visited, visiting           | 看望
call      | an-rufen, ruft, hat angerufen                     | call, called, calling              | 打 电话
fetch     | ab-holen, holt, hat abgeholt                      | pick, picked, picking, up          | 接
give      | geben, gibt, hat gegeben                          | give, gave, giving                 | 给
show      | zeigen, zeigt, hat gezeigt                        | show, showed, showing              | 看
have      | haben, hat, hat gehabt                            | have, had, having                  | 有
like      | mögen, mag, hat gemocht                           | like, liked, liking                | 喜欢
know      | kennen, kennt, hat gekannt                        | know, knew, knowing                | 认识
need      | brauchen, braucht, hat gebraucht                  | need, needed, needing              | 需要
think     | glauben, glaubt, hat geglaubt                     | think, thought, thinking           | 觉得
know_that | wissen, weiß, hat gewusst                         | know, knew, knowing                | 知道
hope      | hoffen, hofft, hat gehofft                        | hope, hoped, hoping                | 希望
say       | sagen, sagt, hat gesagt                           | say, said, saying                  | 说
"""

# Comparatives stand after the plain form; Mandarin: before a noun, then as predicate ("-": not used
# so).
ADJECTIVE_TABLE = """
big         | groß größer               | big, bigger                   | 大, 大
tall        | groß größer               | tall, taller                  | -, 高
small       | klein kleiner             | small, smaller                | 小, 小
new         | neu neuer                 | new, newer                    | 新, 新
old         | alt älter                 | old, older                    | 年老 的, -
old_animal  | alt älter                 | old, older                    | 老, -
old_thing   | alt älter                 | old, older                    | 旧, 旧
red         | rot                       | red                           | 红色 的, -
black       | schwarz                   | black                         | 黑色 的, -
white       | weiß                      | white                         | 白色 的, -
beautiful   | schön schöner             | beautiful, more beautiful     | 漂亮 的, 漂亮
cheap       | billig billiger           | cheap, cheaper                | 便宜 的, 便宜
expensive   | teuer teurer              | expensive, more expensive     | 昂贵 的, 贵
heavy       | schwer schwerer           | heavy, heavier                | -, 重
young       | jung jünger               | young, younger                | 年轻 的, 年轻
clever      | klug klüger               | clever, cleverer              | 聪明 的, 聪明
interesting | interessant interessanter | interesting, more interesting | 有趣 的, 有趣
good        | gut besser                | good, better                  | 好, 好
hot         | heiß heißer               | hot, hotter                   | 热, 热
cold        | kalt kälter               | cold, colder                  | 凉, 凉
fresh       | frisch frischer           | fresh, fresher                | 新鲜 的, 新鲜
tired       | müde                      | tired                         | -, 累
hungry      | hungrig                   | hungry                        | -, 饿
thirsty     | durstig                   | thirsty                       | -, 渴
sick        | krank                     | sick                          | -, 生病
sad         | traurig                   | sad                           | -, 难过
happy       | glücklich                 | happy                         | -, 开心
"""


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun in three languages; `gender` is "m", "f" or "n"; an empty plural or measure says
    uncounted.
    """

    gender: str
    german: str
    german_plural: str
    english: str
    english_plural: str
    measure: str
    mandarin: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in three languages.

    `particle` is what leaves the German verb ("ein" of einkaufen, "Fußball"), `extra` what follows
    the English verb ("television", "up"), `mandarin_object` the noun that is part of the Mandarin
    verb.
    """

    infinitive: str
    stem: str
    third: str
    auxiliary: str
    participle: str
    particle: str
    joined: bool
    english: str
    past: str
    progressive: str
    extra: str
    mandarin: str
    mandarin_object: str


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective in three languages; an empty Mandarin form says that it is not used in that
    place.
    """

    german: str
    german_more: str
    english: str
    english_more: str
    mandarin: tuple[str, ...]
    mandarin_predicate: str


def rows(table: str) -> list[list[str]]:
    """The cells of a table written as text, one row a line, cells between bars."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def _noun(german: str, english: str, mandarin: str, groups: str) -> Noun:
    article, *german_forms = german.split()
    one, many = (german_forms + [""])[:2]
    measure, _, word = mandarin.rpartition(" ")
    singular, plural = (english.split() + [""])[:2]
    gender = {"der": "m", "die": "f", "das": "n"}[article]
    return Noun(gender, one, many, singular, plural, measure, word, tuple(groups.split()))


def _verb(german: str, english: str, mandarin: str) -> Verb:
    infinitive, third, perfect = german.split(", ")
    auxiliary, participle = perfect.split(maxsplit=1)
    particle, _, base = infinitive.replace("-", " - ").rpartition(" ")
    joined = "-" in infinitive
    particle = particle.removesuffix(" -")
    base_form, past, progressive, extra = (english.split(", ") + [""])[:4]
    verb, _, inner = mandarin.partition(" ")
    return Verb(
        infinitive.replace("-", "").split()[-1],
        base.removesuffix("en"),
        third,
        auxiliary,
        participle.split()[-1],
        particle,
        joined,
        base_form,
        past,
        progressive,
        extra,
        verb,
        inner,
    )


def _adjective(german: str, english: str, mandarin: str) -> Adjective:
    plain, more = (german.split() + [""])[:2]
    english_plain, english_more = (english.split(", ") + [""])[:2]
    before, predicate = ("" if form == "-" else form for form in mandarin.split(", "))
    return Adjective(plain, more, english_plain, english_more, tuple(before.split()), predicate)


NOUNS = {concept: _noun(*cells) for concept, *cells in rows(NOUN_TABLE)}
VERBS = {concept: _verb(*cells) for concept, *cells in rows(VERB_TABLE)}
ADJECTIVES = {concept: _adjective(*cells) for concept, *cells in rows(ADJECTIVE_TABLE)}
