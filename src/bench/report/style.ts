/**
 * The page's style sheet. Colours are those of Okabe and Ito (Color Universal Design), which people with the usual
 * kinds of colour blindness can tell apart, darkened or lightened where text or thin lines need it.
 */
export const STYLE = `
:root {
  --bg: #f6f7f9; --card: #ffffff; --ink: #17202b; --soft: #5a6675; --line: #dde2e8; --grid: #e9edf1; --axis: #9aa5b1;
  --none: #6b7683; --agentzip: #0072b2; --ablation: #4aa3d8; --other: #c65400; --paper: #a33b7c;
  --owned: #0072b2; --pool: #e69f00; --base: #009e73; --overhead: #cc79a7; --swapCache: #b9c2cc;
  --hue-1: #0072b2; --hue-2: #e69f00; --hue-3: #009e73; --hue-4: #c65400; --hue-5: #a33b7c;
  --nothing-1: #00507d; --nothing-2: #1f82be; --nothing-3: #76b7dd; --sparse: #0f7a5c; --delta: #1fa67f; --clustered: #5f9e00; --dictionary: #9ccc3c; --zstd: #e6a91f;
  --raw: #7d8794; --staged: #c3cad2; --on-mark: #10161d; --on-dark: #ffffff;
  --good: #00704f; --good-bg: #e8f5f0; --warn: #8a5300; --warn-bg: #fdf3e0; --bad: #a8200d; --bad-bg: #fdeae7;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --bg: #10151b; --card: #181f27; --ink: #e6ebf0; --soft: #9daab8; --line: #2c3641; --grid: #26303a; --axis: #63707e;
    --none: #98a4b1; --agentzip: #56b4e9; --ablation: #3b8fc4; --other: #f0894a; --paper: #dd8fbd;
    --owned: #3d9bd6; --pool: #e8ab26; --base: #1fb48a; --overhead: #cf82ad; --swapCache: #5d6a77;
    --hue-1: #56b4e9; --hue-2: #e8ab26; --hue-3: #1fb48a; --hue-4: #f0894a; --hue-5: #dd8fbd;
    --nothing-1: #3784b5; --nothing-2: #5aaee0; --nothing-3: #9fd2f2; --sparse: #1c8f6e; --delta: #2bb88f; --clustered: #74b816; --dictionary: #a9d65a; --zstd: #e8b33c;
    --raw: #8f9ba8; --staged: #5b6773; --on-mark: #0c1116; --on-dark: #0c1116;
    --good: #58cfa6; --good-bg: #14271f; --warn: #f0bd63; --warn-bg: #2b2313; --bad: #ff8e7d; --bad-bg: #331815;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 28px 20px 48px; max-width: 1040px; background: var(--bg); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif;
  overflow-wrap: break-word;
}
h1, h2, h3, h4, p, dl, dd, figure, ul { margin: 0; }
h1 { font-size: clamp(24px, 4.4vw, 36px); line-height: 1.15; letter-spacing: -0.015em; text-wrap: balance; }
h2 { font-size: 18px; line-height: 1.3; }
h4 { font-size: 13px; margin: 18px 0 6px; }
.eyebrow { display: flex; flex-wrap: wrap; gap: 4px 14px; margin-bottom: 8px; color: var(--soft); font-size: 13px; }
.eyebrow span { color: var(--ink); font-weight: 600; }
.lede { margin-top: 12px; max-width: 78ch; color: var(--soft); font-size: 16px; }
.lede b { color: var(--ink); font-weight: 600; }
header { margin-bottom: 20px; }
main { display: grid; grid-template-columns: minmax(0, 1fr); gap: 16px; }
figure, section, .note { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px; }
.caption { margin: 4px 0 14px; max-width: 88ch; color: var(--soft); font-size: 14px; }
.note { padding: 12px 18px; border-left: 4px solid; }
.note.warn, .note.bad { grid-column: 1 / -1; }
.note h2 { font-size: 15px; }
.note ul { padding-left: 20px; }
.good { border-left-color: var(--good); background: var(--good-bg); }
.good b { color: var(--good); }
.warn { border-left-color: var(--warn); background: var(--warn-bg); }
.warn h2 { color: var(--warn); }
.note.bad { border-left-color: var(--bad); background: var(--bad-bg); }
.note.bad h2, strong.bad { color: var(--bad); }
.notes { display: grid; gap: 10px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(148px, 1fr)); gap: 12px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px; }
.tile h3 { color: var(--soft); font-size: 13px; font-weight: 600; }
.tile p { margin: 2px 0; font-size: 27px; font-weight: 650; letter-spacing: -0.02em; line-height: 1.25; }
.tile p small { display: block; font-size: 12px; font-weight: 400; letter-spacing: 0; }
.tile span { display: block; color: var(--soft); font-size: 12px; line-height: 1.35; }
small, .nil { color: var(--soft); }
data { font-variant-numeric: tabular-nums; white-space: nowrap; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(168px, 1fr)); gap: 12px 20px; margin-top: 12px; }
.facts dt { color: var(--soft); font-size: 12px; }
.command { margin-top: 14px; }
code { font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.command code { display: block; padding: 9px 12px; border-radius: 6px; background: var(--bg); }
.terms { margin-top: 10px; }
.terms dt { margin-top: 10px; font-weight: 600; }
.terms code { margin-left: 6px; color: var(--soft); font-weight: 400; }
.terms dd { max-width: 88ch; color: var(--soft); }
.terms ul { padding-left: 20px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 12px; padding: 0; list-style: none; font-size: 13px; }
.legend li { display: flex; align-items: center; gap: 7px; }
.legend i { flex: none; width: 12px; height: 12px; border-radius: 2px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.legend i.line { height: 3px; width: 16px; }
.legend svg { flex: none; overflow: visible; }
.plot { display: block; width: 100%; height: auto; overflow: visible; --plot-background: var(--card); }
.plot text { white-space: pre; }
.narrow { display: none; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 286px), 1fr)); gap: 18px 20px; }
.panels.two { grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); }
.panel { min-width: 0; break-inside: avoid; }
.panel h3 { font-size: 13px; line-height: 1.35; margin-bottom: 4px; }
.panel h3 span { display: block; color: var(--soft); font-weight: 400; font-size: 12px; }
details { margin-top: 14px; }
summary { cursor: pointer; color: var(--soft); font-size: 13px; width: fit-content; }
.scroll { margin-top: 10px; overflow-x: auto; }
table { border-collapse: separate; border-spacing: 0; font-size: 13px; line-height: 1.4; }
table small { font-size: 11.5px; }
th, td { padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; white-space: nowrap; }
th { font-weight: 400; }
thead th { min-width: 64px; max-width: 118px; font-weight: 600; vertical-align: bottom; white-space: normal; }
th:first-child, thead td:first-child { position: sticky; left: 0; background: var(--card); text-align: left; padding-right: 16px; }
.results small { display: block; }
.results th:first-child { min-width: 210px; max-width: 230px; white-space: normal; }
.results .group th { max-width: none; }
.results td.agentzip, .results thead .agentzip { background: color-mix(in srgb, var(--agentzip) 9%, transparent); }
.results td, .results thead th { padding-left: 12px; }
.group th { padding-top: 14px; font-weight: 600; }
.group th span { position: sticky; left: 0; }
footer { margin-top: 18px; color: var(--soft); font-size: 13px; }
a { color: var(--agentzip); }
@media screen and (max-width: 640px) {
  body { padding: 18px 10px 32px; }
  figure, section { padding: 14px 12px; border-radius: 8px; }
  .wide { display: none; }
  .narrow { display: block; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .facts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .lede { font-size: 15px; }
  .results th:first-child { min-width: 38vw; max-width: 40vw; }
}
@page { size: A4; margin: 12mm; }
@media print {
  body { padding: 0; max-width: none; background: none; font-size: 10pt; }
  figure, section, .note, .tile { border-color: #ccc; }
  figure, .tiles, .note { break-inside: avoid; }
  figure:has(.panels) { break-inside: auto; }
  h2, .caption, .legend { break-after: avoid; }
  .tiles { grid-template-columns: repeat(6, minmax(0, 1fr)); }
  .tile p { font-size: 16pt; }
  .panels { grid-template-columns: repeat(3, minmax(0, 1fr)); }
  .panels.two { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  details { display: none; }
  .scroll { overflow: visible; }
  table { font-size: 6.5pt; width: 100%; }
  th, td, .results td, .results thead th { padding: 2px 3px; white-space: normal; }
  table small { font-size: 5.5pt; }
  .results th:first-child { min-width: 0; }
  th:first-child, .group th span { position: static; }
  svg, tr, .note, .panel { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
`;
