package main

import (
	"fmt"
	"strings"
)

// A table is a Markdown table.
type table struct{ b strings.Builder }

func newTable(heads ...string) *table {
	t := new(table)
	t.row(heads...)
	t.b.WriteString(strings.Repeat("|---", len(heads)) + "|\n")
	return t
}

func (t *table) row(cells ...string) {
	for _, c := range cells {
		t.b.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
	}
	t.b.WriteString("|\n")
}

func (t *table) String() string { return t.b.String() }

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// pick chooses the head of a column.
func pick(lang, en, zh string) string { return Text{en, zh}.In(lang) }

// protocolTables makes the tables of docs/*/protocol.md.
func protocolTables(p *Protocol, lang string) map[string]string {
	tables := map[string]string{"limits": limitTable(p, lang), "commands": wordTable(p.Commands, lang), "codes": wordTable(p.Codes, lang)}
	for _, d := range p.Dialects {
		tables[fmt.Sprintf("fields %d", d.Number)] = fieldTable(d, lang)
		if d.Framing == "headers" {
			tables[fmt.Sprintf("messages %d", d.Number)] = messageTable(d, lang)
			tables[fmt.Sprintf("reasons %d", d.Number)] = reasonTable(d, lang)
			continue
		}
		tables[fmt.Sprintf("requests %d", d.Number)] = requestTable(d, lang)
		tables[fmt.Sprintf("replies %d", d.Number)] = replyTable(d, lang)
	}
	return tables
}

func limitTable(p *Protocol, lang string) string {
	t := newTable(pick(lang, "limit", "上限"), pick(lang, "value", "值"), pick(lang, "meaning", "含义"))
	for _, l := range p.Limits {
		t.row(l.Name, strings.TrimSpace(fmt.Sprintf("%d %s", l.Value, l.Unit)), l.In(lang))
	}
	return t.String()
}

func wordTable(words []Word, lang string) string {
	t := newTable(pick(lang, "number", "编号"), pick(lang, "word", "名称"), pick(lang, "meaning", "含义"))
	for _, w := range words {
		t.row(fmt.Sprint(w.Number), code(w.Name), w.In(lang))
	}
	return t.String()
}

func requestTable(d *Dialect, lang string) string {
	t := newTable(pick(lang, "request", "请求"), pick(lang, "from", "发送方"), pick(lang, "when", "何时"), pick(lang, "what the ingress does", "接收端的处理"), pick(lang, "replies", "应答"))
	for _, m := range d.Requests {
		var replies []string
		for _, r := range m.Replies {
			replies = append(replies, code(r))
		}
		t.row(code(form(m.Keyword, m)), side(m.From, lang), m.When.In(lang), m.Next.In(lang), strings.Join(replies, " "))
	}
	return t.String()
}

func replyTable(d *Dialect, lang string) string {
	t := newTable(pick(lang, "to", "答复"), pick(lang, "reply", "应答"), pick(lang, "when", "何时"), pick(lang, "what the collector does", "采集器的处理"), pick(lang, "then", "随后"))
	for _, request := range d.Requests {
		for _, m := range d.Replies {
			for _, answers := range m.Answers {
				if answers != request.Command {
					continue
				}
				t.row(answers, code(form(m.Code, m)), m.When.In(lang), m.Next.In(lang), closing(m, lang))
			}
		}
	}
	return t.String()
}

// messageTable tells of all messages of a dialect in which nothing is asked and answered one by one.
func messageTable(d *Dialect, lang string) string {
	t := newTable(pick(lang, "message", "消息"), pick(lang, "from", "发送方"), pick(lang, "when", "何时"), pick(lang, "what the other side does", "对方的处理"), pick(lang, "then", "随后"))
	for _, m := range d.messages() {
		t.row(code(headerForm(m)), side(m.From, lang), m.When.In(lang), m.Next.In(lang), closing(m, lang))
	}
	return t.String()
}

// reasonTable tells of the codes that messages carry.
func reasonTable(d *Dialect, lang string) string {
	t := newTable(pick(lang, "message", "消息"), pick(lang, "code", "代码"), pick(lang, "when", "何时"), pick(lang, "what the collector does", "采集器的处理"))
	for _, m := range d.messages() {
		for _, f := range m.Fields {
			for _, r := range f.Reasons {
				t.row(code(m.Word()), code(r.Code), r.When.In(lang), r.Next.In(lang))
			}
		}
	}
	return t.String()
}

func closing(m *Message, lang string) string {
	if m.Closes {
		return pick(lang, "the ingress closes", "接收端关闭连接")
	}
	return ""
}

// fieldTable tells the type and the limits of each field and of the members of each JSON object.
func fieldTable(d *Dialect, lang string) string {
	t := newTable(pick(lang, "message", "消息"), pick(lang, "field", "字段"), pick(lang, "type", "类型"), pick(lang, "range", "范围"), pick(lang, "meaning", "含义"))
	for _, m := range d.messages() {
		for _, f := range m.Fields {
			t.row(code(m.Word()), code(f.Name), fieldType(f, lang), f.limits(), f.In(lang))
			for _, member := range f.Members {
				t.row(code(m.Word()), code(`"`+member.Name+`"`), fieldType(member, lang), member.limits(), member.In(lang))
			}
		}
	}
	return t.String()
}

func (f *Field) limits() string {
	if f.Max == "" {
		return ""
	}
	return fmt.Sprintf("%d..%s", f.Min, f.Max)
}

func fieldType(f *Field, lang string) string {
	name := map[string]Text{
		"number":  {"decimal", "十进制数"},
		"count":   {"decimal", "十进制数"},
		"millis":  {"decimal, milliseconds", "十进制数，毫秒"},
		"bytes":   {"bytes, to the end of the line", "字节，直到行尾"},
		"code":    {"code", "代码"},
		"payload": {"its length in the header, its bytes behind it", "长度在头部中，字节在头部之后"},
		"json":    {"JSON object, to the end of the line", "JSON 对象，直到行尾"},
		"version": {"decimal", "十进制数"},
		"name":    {"string of 1 to 64 letters, digits, dots, underscores and hyphens, not dots alone", "字符串，1 到 64 个字母、数字、点、下划线与连字符，不能只有点"},
		"word":    {"string of 1 to 64 printable ASCII characters", "字符串，1 到 64 个可打印的 ASCII 字符"},
		"ranges":  {"array of pairs [first,last], in order, without overlap", "[首,末] 对的数组，按顺序且不重叠"},
		"text":    {"text, to the end of the line; it may be left out", "文本，直到行尾，可以省略"},
	}[f.Type].In(lang)
	if f.Type == "text" && f.Max != "" {
		name = pick(lang, "string, its length in bytes", "字符串，范围为其字节数")
	}
	if f.Optional {
		name += pick(lang, "; it may be left out", "；可以省略")
	}
	return name
}

func side(from, lang string) string {
	if from == "collector" {
		return pick(lang, "collector", "采集器")
	}
	return pick(lang, "ingress", "接收端")
}

// form shows a message as it is written: the word, and its fields in angle brackets.
func form(word string, m *Message) string {
	for _, f := range m.Fields {
		word += ":<" + f.Name + ">"
	}
	return word
}

// headerForm shows a message of headers. What may be left out is in square brackets.
func headerForm(m *Message) string {
	text := m.Keyword
	for _, f := range m.Fields {
		switch f.Type {
		case "text":
			text += " [" + f.Name + "]"
		case "payload":
			text += ` <bytes>\r\n<` + f.Name + ">"
		default:
			text += " <" + f.Name + ">"
		}
	}
	return text + `\r\n`
}

// optionTables makes the tables of docs/*/options.md.
func optionTables(o *Options, lang string) map[string]string {
	tables := map[string]string{}
	for _, p := range o.Programs {
		t := newTable(pick(lang, "option", "选项"), pick(lang, "default", "默认值"), pick(lang, "allowed", "允许的值"), pick(lang, "unit", "单位"), pick(lang, "meaning", "含义"))
		for _, opt := range p.Options {
			value := code(opt.Default)
			switch {
			case opt.Required:
				value = pick(lang, "(required)", "（必需）")
			case opt.Type == "bool":
				value = code("false")
			}
			t.row(code("--"+opt.Name), value, opt.Allowed(lang), unit(opt.Unit, lang), opt.In(lang))
		}
		if a := p.Arguments; a != nil {
			t.row(code(a.Shown+"..."), pick(lang, "(required)", "（必需）"), "", "", a.In(lang))
		}
		tables[p.Name] = t.String()
	}
	return tables
}

func unit(name, lang string) string {
	if lang == "en" {
		return name
	}
	return map[string]string{"": "", "batches": "批次", "connections": "连接", "attempts": "次"}[name]
}
