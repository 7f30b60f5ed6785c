"""The page's style: light and dark, one palette that colour-blind readers can tell apart.

The hues are those of Okabe and Ito's palette (blue, bluish green, vermilion, reddish purple, amber), lighter where the
ground is dark. Every meaning also has a shape, a pattern or a word.
"""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#17212b;--dim:#586573;--rule:#dfe4ea;--ground:#eef3f8;
--user:#0072b2;--user-pale:#cfe5f3;--agent:#9c4f80;--agent-pale:#f1dceb;--ok:#00805e;--ok-pale:#d3eee5;--no:#b84a00;
--no-pale:#fbe6d8;--plain:#6b7785;--wait:#f2dca6;--wait-dot:#a87400;--idle:#e6eaee;--on:#fff}
@media(prefers-color-scheme:dark){:root{--page:#10151b;--card:#18202a;--ink:#e8edf3;--dim:#9fadbb;--rule:#2c3743;
--ground:#1d2732;--user:#5cb8ee;--user-pale:#1c4058;--agent:#e08fc0;--agent-pale:#4d2c42;--ok:#2cc497;--ok-pale:#16443a;
--no:#f58a45;--no-pale:#4a2a17;--plain:#94a2b1;--wait:#5c4a1b;--wait-dot:#d9ac45;--idle:#28323d;--on:#10151b}}
*{box-sizing:border-box}
body{margin:0;padding:24px clamp(12px,3vw,40px) 48px;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;font-variant-numeric:tabular-nums}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 4px}h2{font-size:1.1rem;margin:28px 0 10px}
p{margin:0 0 12px;max-width:75ch}.dim{color:var(--dim)}.wide{max-width:none;font-size:.86rem;margin-bottom:6px}
a{color:var(--user)}
.alarm,.nothing{padding:12px 16px;border-radius:8px;border-left:5px solid var(--no);background:var(--card)}
.nothing{border-color:var(--plain)}
.tiles{display:flex;flex-wrap:wrap;gap:10px;margin:18px 0 0;padding:0}
.tiles div{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:10px 16px;min-width:118px}
.tiles dt{color:var(--dim);font-size:.8rem}.tiles dd{margin:0;font-size:1.4rem;font-weight:650;line-height:1.25}
.tiles small{display:block;color:var(--dim);font-size:.75rem;font-weight:400}
.legend{display:grid;grid-template-columns:repeat(auto-fill,minmax(330px,1fr));gap:6px 22px;margin:0 0 14px;padding:0;
list-style:none;font-size:.86rem}
.legend li{display:flex;gap:10px;align-items:center}.legend svg{flex:none}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:10px}
.scroll:focus-visible{outline:3px solid var(--user);outline-offset:2px}
.figure{position:relative;display:flex;width:max-content}
.names{position:sticky;left:0;z-index:1;width:164px;flex:none;background:var(--card);border-right:1px solid var(--rule)}
.names div{position:absolute;left:0;right:0;padding:9px 10px 0 12px;border-top:1px solid var(--rule);line-height:1.25;
font-size:.75rem;color:var(--dim)}
.names div:first-child{border-top:0}.names b{display:block;font-size:.86rem;color:var(--ink)}
.names div.narrow{padding-right:48px}
.names i{position:absolute;right:8px;font-style:normal;font-size:.72rem;line-height:12px;white-space:nowrap}
.canvas{position:relative}.canvas>svg{display:block}
.anchor{position:absolute;top:0;scroll-margin:20px 184px}
.table{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:10px}
table{border-collapse:collapse;width:100%;min-width:820px}
caption{text-align:left;padding:10px 14px;color:var(--dim);font-size:.86rem}
th,td{text-align:left;vertical-align:top;padding:9px 14px;border-top:1px solid var(--rule)}
thead th{font-size:.8rem;color:var(--dim);font-weight:600;vertical-align:bottom}
td.n,th.n{text-align:right;white-space:nowrap}tbody th{white-space:nowrap}td.text{min-width:190px}
td ul{margin:0;padding:0;list-style:none}td li+li{margin-top:4px}
.ok{color:var(--ok)}.no{color:var(--no)}
svg text{fill:var(--ink);font-size:12px;paint-order:stroke;stroke:var(--card);stroke-width:2.5px;stroke-linejoin:round;
stroke-opacity:.75}svg .tiny{stroke:none}svg .small{font-size:11px}
svg .tiny{font-size:10px;font-weight:600;letter-spacing:.03em}
svg .dim{fill:var(--dim)}svg .head{font-size:12.5px;font-weight:650}svg .no{fill:var(--no)}
.rule,.tick{stroke:var(--rule)}.tick{stroke:var(--dim)}.ground{fill:var(--ground)}
.speech{fill:var(--user)}.said{fill:var(--agent)}.speech.quiet{fill:var(--user-pale)}.said.quiet{fill:var(--agent-pale)}
.speech.off{fill:none;stroke:var(--user);stroke-dasharray:3 2}
.wave{stroke:none;pointer-events:none}.wave.user{fill:var(--user)}.wave.agent{fill:var(--agent)}
.pause{stroke:var(--user);stroke-width:2;stroke-dasharray:1.5 4;stroke-linecap:round}
.base{stroke:var(--rule)}.theta{stroke:var(--ink);stroke-dasharray:6 4;opacity:.65}
.stem{stroke:var(--dim);stroke-width:2;fill:none;opacity:.45}
.over{fill:var(--ink);stroke:var(--ink)}.under{fill:var(--card);stroke:var(--dim);stroke-width:1.5}
.state{fill:var(--idle)}.listening{fill:var(--user-pale)}.responding{fill:var(--agent-pale)}
.paused{fill:url(#dots);stroke:var(--wait-dot)}
.dots-ground{fill:var(--wait)}.dots-dot{fill:var(--wait-dot);opacity:.45}
.reply.ok{fill:var(--ok)}.reply.plain{fill:var(--plain)}.reply.open{fill:none;stroke:var(--plain);stroke-dasharray:4 3}
.reply.no{fill:url(#hatch);stroke:var(--no);stroke-width:1.5}
.hatch-ground{fill:var(--no-pale)}.hatch-line{stroke:var(--no);stroke-width:2;fill:none}
.mark{fill:var(--card);stroke:var(--ink)}.cut{stroke:var(--no);stroke-width:2.5}
.moment{stroke:var(--dim);opacity:.75}.m0{stroke-dasharray:1 4}.m1{stroke-dasharray:7 3}
.m2{stroke-dasharray:2 2;opacity:.5}
.m3{stroke:var(--agent);opacity:1}
.glyph{fill:var(--ink);stroke:var(--card)}.g0{fill:var(--user)}.g3{fill:var(--agent)}
.whole{height:33px}.whole:hover{fill:var(--rule)}.through{pointer-events:none}.cut-bar{fill:var(--no)}
.dead{stroke:var(--agent);stroke-width:3;opacity:.55}
.strip{display:block;width:100%;height:34px;margin:0 0 10px;background:var(--card);
border:1px solid var(--rule);border-radius:6px}
@media print{body{background:#fff}.scroll,.table{overflow:visible}}
@media(max-width:600px){.names{width:112px}.names div{padding-left:8px}.names span{display:none}
.anchor{scroll-margin:20px 130px}}
""".strip()
