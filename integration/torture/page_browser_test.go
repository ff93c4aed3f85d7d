package torture

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image/png"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cordwood/integration/history"
)

var (
	browserFlag = flag.String("browser", "", "path of Chromium or Chrome, with which the report is looked at; empty: not done")
	shotsFlag   = flag.String("shots", "", "directory in which pictures of the report are left; empty: nowhere")
)

// busyHistory has something in every part of the page.
func busyHistory(t *testing.T) *Result {
	t.Helper()
	const seed = 11
	h := history.Generate(history.Shape{Seed: seed, Ops: 4000, Processes: 8})
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, kind := range []history.Kind{history.LostWrite, history.Duplicate, history.PollSkip, history.InconsistentOffsets} {
		require.NoError(t, history.Plant(kind, h, rng))
	}
	h.Header.Began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	h.Header.Flags = []string{"--nodes=3", "--duration=2m0s", "--faults=all", "--period=5s", "--seed=1234567890123456789", "--clients=16", "--rate=1000"}
	last := h.Ops[len(h.Ops)-1].End
	for i, name := range []string{"isolate", "kill", "truncation", "powerall", "reassign", "kill", "fulldisk"} {
		from := time.Duration(i) * last / 8
		h.Faults = append(h.Faults, history.Fault{Name: name, Nodes: []int{1 + i%3}, What: "what was done to it, in a sentence of some length", Start: from, End: from + last/8})
	}
	h.Losses = []history.Loss{{Key: 0, From: 9, To: noEnd, At: last / 2}}
	r := Judge(h)
	r.Skipped = []string{"ring: the nemesis cannot work here: ring needs 5 nodes, and there are 3"}
	r.Unsettled = fmt.Errorf("node 1: node 2 is not in sync in torture-isr-disk-all/1")
	return r
}

// looks asks the page what people would complain of.
const looks = `(() => {
  const bad = [], wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) bad.push("the page is " + wide + " wide in a window of " + innerWidth);
  const light = c => { const [r, g, b] = c.match(/[\d.]+/g).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 }); return .2126 * r + .7152 * g + .0722 * b };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$|transparent/.test(c)) return c } return "rgb(255,255,255)" };
  let texts = 0;
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()) || e.closest("title")) continue;
    const style = getComputedStyle(e), box = e.getBoundingClientRect(), svg = e.ownerSVGElement, what = JSON.stringify(e.textContent.trim().slice(0, 40));
    if (style.display == "none" || !box.width) continue;
    texts++;
    const size = parseFloat(style.fontSize) * (svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1);
    if (size < 11) bad.push(what + " is " + size.toFixed(1) + " px high");
    const a = light(svg ? style.fill : style.color), b = light(svg && e.classList.contains("in") ? getComputedStyle(svg.querySelector(".bar")).fill : behind(e));
    const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (contrast < 4.5) bad.push(what + " has a contrast of " + contrast.toFixed(2));
    if (!e.closest(".wide") && box.right > innerWidth + 1) bad.push(what + " ends at " + box.right + " of " + innerWidth);
    if (svg && (box.left < svg.getBoundingClientRect().left - 1 || box.right > svg.getBoundingClientRect().right + 1)) bad.push(what + " leaves its chart");
  }
  for (const e of document.querySelectorAll("svg")) if (e.getBoundingClientRect().height < 60) bad.push("a chart is flat");
  const lines = [...document.querySelectorAll("polyline")].filter(l => l.getTotalLength() > 50).length;
  return { bad, texts, lines, charts: document.querySelectorAll("svg").length };
})()`

// TestThePageReadsWellInABrowser without a network, at the widths of a desk and of a telephone, by day and by night: nothing
// reaches over the edge, is too small or too pale, and nothing is asked of anybody.
func TestThePageReadsWellInABrowser(t *testing.T) {
	if *browserFlag == "" {
		t.Skip("needs -browser: make torture-page")
	}
	file := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(file, Page(busyHistory(t)), 0o644))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(*browserFlag), chromedp.NoSandbox)...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	asked := 0
	require.NoError(t, chromedp.Listen(ctx, func(e any) {
		if r, ok := e.(*network.EventRequestWillBeSent); ok {
			assert.True(t, strings.HasPrefix(r.Request.URL, "file://"), r.Request.URL)
			asked++
		}
	}))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	for _, night := range []bool{false, true} {
		for _, width := range []int64{1280, 400} {
			t.Run(fmt.Sprintf("%d px, night %t", width, night), func(t *testing.T) {
				scheme := map[bool]string{false: "light", true: "dark"}[night]
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
				require.NoError(t, err)
				_, err = chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 600})
				require.NoError(t, err)
				require.NoError(t, chromedp.Do(ctx, chromedp.Navigate((&url.URL{Scheme: "file", Path: file}).String())))
				seen, err := chromedp.Run(ctx, chromedp.Evaluate[struct {
					Bad                  []string
					Texts, Lines, Charts int
				}](looks))
				require.NoError(t, err)
				shot, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
				require.NoError(t, err)
				if *shotsFlag != "" {
					require.NoError(t, os.WriteFile(filepath.Join(*shotsFlag, fmt.Sprintf("report-%d-%s.png", width, scheme)), shot, 0o644))
				}
				require.Empty(t, seen.Bad, strings.Join(seen.Bad, "\n"))
				require.Greater(t, seen.Texts, 60)
				require.Equal(t, 3, seen.Charts)
				require.Equal(t, 4, seen.Lines)
				requirePicture(t, shot, int(width), night)
			})
		}
	}
	require.Equal(t, 4, asked, "each time for the page alone")
}

// requirePicture: it is as wide as the window, shows the lines of the charts, and is mostly paper.
func requirePicture(t *testing.T, shot []byte, width int, night bool) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(shot))
	require.NoError(t, err)
	b := img.Bounds()
	require.Equal(t, width, b.Dx())
	require.Greater(t, b.Dy(), 900)
	acked, p50, paper := 0, 0, 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, bl, _ := img.At(x, y).RGBA()
			switch r, g, bl = r>>8, g>>8, bl>>8; {
			case r == 0x1b && g == 0x7f && bl == 0x4b:
				acked++
			case r == 0x1f && g == 0x5f && bl == 0xb4:
				p50++
			case !night && r == 255 && g == 255 && bl == 255 || night && r == 0x16 && g == 0x18 && bl == 0x1a:
				paper++
			}
		}
	}
	require.Greater(t, acked, 50, "pixels of the line of acknowledged records")
	require.Greater(t, p50, 50, "pixels of the line of the median")
	require.Greater(t, paper, b.Dx()*b.Dy()/2)
}
