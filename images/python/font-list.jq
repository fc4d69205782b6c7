# Completes matplotlib's list of the fonts in this image.
#
# Programs written elsewhere ask for fonts that are not free. Each missing name would cost a
# warning per piece of text, so the fonts that draw the same script answer to them too.
{
  "SimHei": "Noto Sans CJK SC",
  "Microsoft YaHei": "Noto Sans CJK SC",
  "PingFang SC": "Noto Sans CJK SC",
  "WenQuanYi Zen Hei": "Noto Sans CJK SC",
  "WenQuanYi Micro Hei": "Noto Sans CJK SC",
  "Arial Unicode MS": "Noto Sans CJK SC",
  "SimSun": "Noto Serif CJK SC",
  "Microsoft JhengHei": "Noto Sans CJK TC",
  "PingFang TC": "Noto Sans CJK TC",
  "MS Gothic": "Noto Sans CJK JP",
  "Yu Gothic": "Noto Sans CJK JP",
  "Meiryo": "Noto Sans CJK JP",
  "Hiragino Sans": "Noto Sans CJK JP",
  "IPAexGothic": "Noto Sans CJK JP",
  "Malgun Gothic": "Noto Sans CJK KR",
  "AppleGothic": "Noto Sans CJK KR",
  "NanumGothic": "Noto Sans CJK KR"
} as $aliases
| .ttflist as $fonts
| .ttflist += [
    ($aliases | to_entries[]) as $alias
    | $fonts[]
    | select(.name == $alias.value)
    | .name = $alias.key
  ]
# These have no bold face: a bold title in plain letters would warn about that.
| .ttflist += [$fonts[] | select(.name == "Symbola" or .name == "Unifont Upper") | .weight = 700]
