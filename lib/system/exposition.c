/* SPDX-License-Identifier: MIT */
#include "system/exposition.h"

#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {"counter", "gauge", "histogram"};

/* --- bytes ---------------------------------------------------------------- */

static void
flush(struct trp_exposition *out)
{
    if (out->used != 0 && !out->is_over) {
        out->is_over = !out->write(out->text, out->used, out->user);
    }
    out->used = 0;
}

static void
put_bytes(struct trp_exposition *out, const char *bytes, size_t count)
{
    while (count > 0) {
        size_t room = sizeof out->text - out->used;
        size_t piece = count < room ? count : room;

        memcpy(out->text + out->used, bytes, piece);
        out->used += piece;
        bytes += piece;
        count -= piece;
        if (out->used == sizeof out->text) {
            flush(out);
        }
    }
}

static void
put(struct trp_exposition *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

static bool
is_json(const struct trp_exposition *out)
{
    return out->format == TROUPE_METRICS_JSON;
}

static void
put_number(struct trp_exposition *out, double value)
{
    char text[TRP_NUMBER_BYTES];

    if (is_json(out) && !isfinite(value)) {
        put(out, "null");
        return;
    }
    put_bytes(out, text, trp_number_write(text, value));
}

/* --- text ----------------------------------------------------------------- */

/*
 * Bytes of the well-formed character at `text` (RFC 3629), 0: there is none.
 * Surrogates and what is longer than it need be are not well-formed.
 */
static size_t
character_bytes(const unsigned char *text)
{
    unsigned char least = 0x80, most = 0xbf;
    size_t bytes;

    if (text[0] < 0x80) {
        return 1;
    }
    if (text[0] >= 0xc2 && text[0] <= 0xdf) {
        bytes = 2;
    } else if (text[0] >= 0xe0 && text[0] <= 0xef) {
        bytes = 3;
        least = text[0] == 0xe0 ? 0xa0 : least;
        most = text[0] == 0xed ? 0x9f : most;
    } else if (text[0] >= 0xf0 && text[0] <= 0xf4) {
        bytes = 4;
        least = text[0] == 0xf0 ? 0x90 : least;
        most = text[0] == 0xf4 ? 0x8f : most;
    } else {
        return 0;
    }
    if (text[1] < least || text[1] > most) {
        return 0;
    }
    for (size_t i = 2; i < bytes; i++) {
        if (text[i] < 0x80 || text[i] > 0xbf) {
            return 0;
        }
    }
    return bytes;
}

/* JSON: RFC 8259, section 7. */
static void
put_json_ascii(struct trp_exposition *out, unsigned char c)
{
    char text[8];

    if (c == '"' || c == '\\') {
        text[0] = '\\';
        text[1] = (char)c;
        put_bytes(out, text, 2);
    } else if (c < 0x20) {
        snprintf(text, sizeof text, "\\u%04x", c);
        put(out, text);
    } else {
        text[0] = (char)c;
        put_bytes(out, text, 1);
    }
}

/* Prometheus: a quote is escaped in labels only. */
static void
put_ascii(struct trp_exposition *out, unsigned char c, bool is_label)
{
    char text[2] = {(char)c};

    if (c == '\n') {
        put(out, "\\n");
    } else if (c == '\\') {
        put(out, "\\\\");
    } else if (c == '"' && is_label) {
        put(out, "\\\"");
    } else {
        put_bytes(out, text, 1);
    }
}

static void
put_escaped(struct trp_exposition *out, const char *text, bool is_label)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at != '\0') {
        size_t bytes = character_bytes(at);

        if (bytes == 0) {
            put(out, "\xef\xbf\xbd");
            bytes = 1;
        } else if (bytes > 1) {
            put_bytes(out, (const char *)at, bytes);
        } else if (is_json(out)) {
            put_json_ascii(out, *at);
        } else {
            put_ascii(out, *at, is_label);
        }
        at += bytes;
    }
}

static void
put_quoted(struct trp_exposition *out, const char *text)
{
    put(out, "\"");
    put_escaped(out, text, true);
    put(out, "\"");
}

/* --- Prometheus ----------------------------------------------------------- */

/* `le` NULL: none; it comes where its name belongs. */
static void
put_labels(struct trp_exposition *out, const struct trp_label *labels,
    size_t count, const char *le)
{
    const char *before = "{";
    bool is_le_due = le != NULL;

    for (size_t i = 0; i <= count; i++) {
        if (is_le_due && (i == count || strcmp(labels[i].name, "le") > 0)) {
            put(out, before);
            put(out, "le=\"");
            put(out, le);
            put(out, "\"");
            before = ",";
            is_le_due = false;
        }
        if (i < count) {
            put(out, before);
            put(out, labels[i].name);
            put(out, "=");
            put_quoted(out, labels[i].value);
            before = ",";
        }
    }
    if (before[0] == ',') {
        put(out, "}");
    }
}

static void
put_sample(struct trp_exposition *out, const char *suffix,
    const struct trp_label *labels, size_t count, const char *le, double value)
{
    put(out, out->name);
    put(out, suffix);
    put_labels(out, labels, count, le);
    put(out, " ");
    put_number(out, value);
    put(out, "\n");
}

static void
put_histogram(struct trp_exposition *out, const struct trp_label *labels,
    size_t label_count, const struct trp_histogram *histogram)
{
    uint64_t below = 0;
    char le[TRP_NUMBER_BYTES];

    for (size_t i = 0; i <= histogram->bound_count; i++) {
        below += histogram->counts[i];
        trp_number_write(
            le, i < histogram->bound_count ? histogram->bounds[i] : INFINITY);
        put_sample(out, "_bucket", labels, label_count, le, (double)below);
    }
    put_sample(out, "_sum", labels, label_count, NULL, histogram->sum);
    put_sample(out, "_count", labels, label_count, NULL, (double)below);
}

/* --- JSON ----------------------------------------------------------------- */

static void
begin_json_series(
    struct trp_exposition *out, const struct trp_label *labels, size_t count)
{
    put(out, out->has_series ? ",\n  {\"labels\":{" : "\n  {\"labels\":{");
    out->has_series = true;
    for (size_t i = 0; i < count; i++) {
        put(out, i != 0 ? "," : "");
        put_quoted(out, labels[i].name);
        put(out, ":");
        put_quoted(out, labels[i].value);
    }
    put(out, "}");
}

static void
put_json_histogram(
    struct trp_exposition *out, const struct trp_histogram *histogram)
{
    uint64_t below = 0;

    put(out, ",\"buckets\":[");
    for (size_t i = 0; i < histogram->bound_count; i++) {
        below += histogram->counts[i];
        put(out, i != 0 ? ",{\"le\":" : "{\"le\":");
        put_number(out, histogram->bounds[i]);
        put(out, ",\"count\":");
        put_number(out, (double)below);
        put(out, "}");
    }
    put(out, "],\"sum\":");
    put_number(out, histogram->sum);
    put(out, ",\"count\":");
    put_number(
        out, (double)(below + histogram->counts[histogram->bound_count]));
    put(out, "}");
}

static void
end_json_family(struct trp_exposition *out)
{
    if (out->has_family) {
        put(out, "]}");
    }
}

static void
begin_json_family(struct trp_exposition *out, const char *help)
{
    end_json_family(out);
    put(out, out->has_family ? ",\n " : "\n ");
    put(out, "{\"name\":");
    put_quoted(out, out->name);
    put(out, ",\"kind\":");
    put_quoted(out, kinds[out->kind]);
    put(out, ",\"help\":");
    put_quoted(out, help);
    put(out, ",\"series\":[");
}

/* --- calls ---------------------------------------------------------------- */

void
trp_exposition_begin(struct trp_exposition *out, troupe_metrics_format format,
    troupe_write_fn write, void *user)
{
    out->format = format;
    out->write = write;
    out->user = user;
    out->is_over = out->has_family = out->has_series = false;
    out->used = 0;
    if (is_json(out)) {
        put(out, "{\"metrics\":[");
    }
}

void
trp_exposition_end(struct trp_exposition *out)
{
    if (is_json(out)) {
        end_json_family(out);
        put(out, "]}\n");
    }
    flush(out);
}

void
trp_exposition_family(struct trp_exposition *out, const char *name,
    const char *help, troupe_metric_kind kind)
{
    out->name = name;
    out->kind = kind;
    if (is_json(out)) {
        begin_json_family(out, help);
    } else {
        put(out, "# HELP ");
        put(out, name);
        put(out, help[0] != '\0' ? " " : "");
        put_escaped(out, help, false);
        put(out, "\n# TYPE ");
        put(out, name);
        put(out, " ");
        put(out, kinds[kind]);
        put(out, "\n");
    }
    out->has_family = true;
    out->has_series = false;
}

void
trp_exposition_value(struct trp_exposition *out, const struct trp_label *labels,
    size_t label_count, double value)
{
    if (!is_json(out)) {
        put_sample(out, "", labels, label_count, NULL, value);
        return;
    }
    begin_json_series(out, labels, label_count);
    put(out, ",\"value\":");
    put_number(out, value);
    put(out, "}");
}

void
trp_exposition_histogram(struct trp_exposition *out,
    const struct trp_label *labels, size_t label_count,
    const struct trp_histogram *histogram)
{
    if (!is_json(out)) {
        put_histogram(out, labels, label_count, histogram);
        return;
    }
    begin_json_series(out, labels, label_count);
    put_json_histogram(out, histogram);
}
