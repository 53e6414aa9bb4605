package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"text/template"
)

//go:embed plot.svg.tmpl
var plotText string

var plotTemplate = template.Must(template.New("plot").Parse(plotText))

// What a plot looks like, in pixels.
const (
	plotLeft    = 90  // where bars begin
	plotBars    = 480 // from the first to the last power of ten
	plotAfter   = 130 // for the number behind the longest bar
	plotTop     = 40
	plotSpacing = 32 // from bar to bar
	barHeight   = 20
)

type plotTick struct {
	X    int
	Text string
}

type plotBar struct {
	Name, Class, Text                  string
	Y, Middle, Width, Low, High, After int
}

type plotData struct {
	Title                                       string
	Width, Height, Left, Indent, Bottom, Labels int
	Ticks                                       []plotTick
	Bars                                        []plotBar
}

// plot draws the medians of all peers as bars, on a scale of powers of ten, with a line from the lowest to the highest
// round. It has no background of its own; its greys can be read on white and on dark.
func (r *Report) plot() []byte {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range r.Peers {
		if len(p.Rounds) > 0 {
			x := p.spread(rate)
			low, high = min(low, math.Floor(math.Log10(x.Min))), max(high, math.Ceil(math.Log10(x.Max)))
		}
	}
	if high <= low { // nothing ran, or all in one power of ten exactly
		low, high = min(low, 0), max(high, 1)
	}
	s := r.Settings
	d := plotData{
		Title: fmt.Sprintf("Acknowledged-durable records/s, %d collectors, batches of %d × %d B", s.Collectors, s.Batch, s.Size),
		Width: plotLeft + plotBars + plotAfter, Left: plotLeft, Indent: plotLeft - 8,
	}
	at := func(value float64) int {
		return plotLeft + int(math.Round((math.Log10(value)-low)/(high-low)*plotBars))
	}
	y := plotTop
	for _, p := range r.Peers {
		if len(p.Rounds) == 0 {
			continue
		}
		x := p.spread(rate)
		bar := plotBar{Name: p.Name, Class: "bar", Text: thousands(x.Median), Y: y, Middle: y + barHeight/2,
			Width: at(x.Median) - plotLeft, Low: at(x.Min), High: at(x.Max), After: at(x.Max) + 8}
		if p.Name == "tidemark" {
			bar.Class = "ours"
		}
		d.Bars = append(d.Bars, bar)
		y += plotSpacing
	}
	for power := low; power <= high; power++ {
		d.Ticks = append(d.Ticks, plotTick{at(math.Pow(10, power)), thousands(math.Pow(10, power))})
	}
	d.Bottom, d.Labels, d.Height = y, y+18, y+28
	var out bytes.Buffer
	if err := plotTemplate.Execute(&out, d); err != nil {
		panic(err) // the template and its data stand side by side in this program
	}
	return out.Bytes()
}

// thousands writes a number with commas, and no decimals.
func thousands(x float64) string {
	text := fmt.Sprintf("%.0f", x)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
