"""A tiny font, five dots wide and nine high, for labels in pictures.

A glyph is nine digits of base 32, one for each row from the top: the dots of a row are the bits of its digit, the
leftmost the highest. Seven rows stand on the line, two hang below it; those that are not written are empty.
"""

WIDTH, HEIGHT, ASCENT = 5, 9, 7
_UNKNOWN = "vhhhhhv"
_GLYPHS = dict(
    pair.split("\t")
    for pair in [
        *("A\tehhvhhh", "B\tuhhuhhu", "C\tehggghe", "D\tuhhhhhu", "E\tvgguggv", "F\tvgguggg", "G\tehgnhhf"),
        *("H\thhhvhhh", "I\te44444e", "J\t72222ic", "K\thikokih", "L\tggggggv", "M\thrllhhh", "N\thhpljhh"),
        *("O\tehhhhhe", "P\tuhhuggg", "Q\tehhhlid", "R\tuhhukih", "S\tfgge11u", "T\tv444444", "U\thhhhhhe"),
        *("V\thhhhha4", "W\thhhllla", "X\thha4ahh", "Y\thhha444", "Z\tv1248gv"),
        *("a\t00e1fhf", "b\tggmphhu", "c\t00egghe", "d\t11djhhf", "e\t00ehvge", "f\t698s888", "g\t00fhhhf1e"),
        *("h\tggmphhh", "i\t40c444e", "j\t2062222ic", "k\tggikoki", "l\tc44444e", "m\t00qllhh", "n\t00mphhh"),
        *("o\t00ehhhe", "p\t00uhhhugg", "q\t00djhhf11", "r\t00mpggg", "s\t00ege1u", "t\t88s8896"),
        *("u\t00hhhjd", "v\t00hhha4", "w\t00hhlla", "x\t00ha4ah", "y\t00hhhhf1e", "z\t00v248v"),
        *("0\tehhhhhe", "1\t4c4444e", "2\teh1248v", "3\tv2421he", "4\t26aiv22", "5\tvgu11he", "6\t68guhhe"),
        *("7\tv124888", "8\tehhehhe", "9\tehhf12c", " \t0", ".\t00000cc", ",\t00000cc48", ":\t0cc0cc0"),
        *(
            ";\t0cc0cc48",
            "-\t000e000",
            "_\t0000000v",
            "/\t01248g0",
            "\\\t0g84210",
            "(\t2488842",
            ")\t8422248",
        ),
        *("[\te88888e", "]\te22222e", "=\t00v0v00", "+\t044v440", "*\t04lel40", "%\top248j3", "!\t4444404"),
        *("?\teh12404", "#\taavavaa", "&\tcik8lid", "'\t4480000", '"\taa00000', "<\t248g842", ">\t8421248"),
        *("@\teh1dlle", "|\t4444444", "~\t008l200", "$\t4fke5u4", "^\t4ah0000", "`\t8420000"),
        *("{\t2448442", "}\t8442448"),
    ]
)


def dots(character: str) -> list[tuple[int, int]]:
    """Where the glyph is black: column and row, from the top left."""
    rows = _GLYPHS.get(character, _UNKNOWN)
    return [
        (column, row)
        for row, digit in enumerate(rows)
        for column in range(WIDTH)
        if int(digit, 32) >> (WIDTH - 1 - column) & 1
    ]


def width_of(text: str, scale: int) -> int:
    """How many pixels a line takes: a column of air stands between glyphs."""
    return max(0, len(text) * (WIDTH + 1) - 1) * scale
