// A blank of an exercise: an editor, and a button that checks the answer, with the messages that the notebook shows.

import { h } from "./html.mjs";
import { check, start } from "./python.mjs";
import { THEME } from "./theme.mjs";

const INDENT = "    ";

const STYLE = `
.exercise { ${THEME} border: 1px solid var(--border); border-radius: .4rem; padding: .8rem; margin: 1rem 0; font-size: .9rem; }
.exercise :is(textarea, pre) { display: block; box-sizing: border-box; width: 100%; margin: 0; padding: .6rem; border-radius: .3rem;
  font-family: var(--monospace); font-size: .85rem; line-height: 1.5; color: inherit; background: var(--field); tab-size: 4; }
.exercise textarea { border: 1px solid var(--muted); white-space: pre; overflow: auto; resize: vertical; }
.exercise pre { border: 1px solid var(--border); border-inline-start-width: .3rem; white-space: pre; overflow-x: auto; }
.exercise pre .prose { white-space: pre-wrap; overflow-wrap: anywhere; }
.exercise pre.right { border-color: #009E73; }
.exercise pre.wrong { border-color: #D55E00; }
.exercise pre:empty { display: none; }
.exercise .controls { display: flex; flex-wrap: wrap; align-items: center; gap: .5rem 1rem; margin: .6rem 0; }
.exercise .controls p { margin: 0; color: var(--muted); font-size: .8rem; }
.try-it, .exercise button { font: inherit; color: inherit; padding: .3rem .8rem; background: var(--field, transparent);
  border: 1px solid var(--muted, currentColor); border-radius: .3rem; }
.exercise button:disabled { opacity: .5; }
.try-it:focus-visible, .exercise :is(button, textarea, pre):focus-visible { outline: 3px solid var(--focus, currentColor); outline-offset: 1px; }
@media print { .try-it { display: none; } }
`;

/** What the browser keeps of an exercise: the code, and whether it was right. Without storage, it keeps nothing. */
class Saved {
  constructor(topic, name) {
    this.key = `exercises/${topic}/${name}`;
  }

  get() {
    try {
      return JSON.parse(localStorage.getItem(this.key));
    } catch {
      return null;
    }
  }

  set(value) {
    try {
      if (value) localStorage.setItem(this.key, JSON.stringify(value));
      else localStorage.removeItem(this.key);
    } catch {
      // the browser forbids it, or its storage is full
    }
  }
}

/** Replace a part of the text as if by typing, so that it can be undone. */
function type(editor, start, end, text) {
  editor.setSelectionRange(start, end);
  document.execCommand(text ? "insertText" : "delete", false, text); // no other way keeps the history
}

/** Indent the selected lines, or remove an indentation; without a selection, insert spaces up to the next stop. */
function indent(editor, isBack) {
  const { value, selectionStart } = editor;
  let { selectionEnd } = editor;
  const isSelected = selectionStart !== selectionEnd;
  const lineStart = value.lastIndexOf("\n", selectionStart - 1) + 1;
  if (!isBack && !isSelected) {
    const width = INDENT.length - ((selectionStart - lineStart) % INDENT.length);
    type(editor, selectionStart, selectionEnd, " ".repeat(width));
    return;
  }
  if (isSelected && value[selectionEnd - 1] === "\n") selectionEnd--; // nothing of the line after it is selected
  if (isBack) selectionEnd = `${value}\n`.indexOf("\n", selectionEnd); // all spaces of the last line count
  const lines = value.slice(lineStart, selectionEnd).split("\n");
  const moved = lines.map((line) => (isBack ? line.replace(/^ {1,4}/, "") : INDENT + line)).join("\n");
  if (moved === lines.join("\n")) return;
  type(editor, lineStart, selectionEnd, moved);
  const caret = Math.max(lineStart, selectionStart - (lines.join("\n").length - moved.length));
  if (isSelected) editor.setSelectionRange(lineStart, lineStart + moved.length);
  else editor.setSelectionRange(caret, caret);
}

/** Begin a line with the indentation of the line before it; one more after a colon. */
function newLine(editor) {
  const { value, selectionStart, selectionEnd } = editor;
  const line = value.slice(value.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart);
  const more = /:\s*$/.test(line) ? INDENT : "";
  type(editor, selectionStart, selectionEnd, `\n${line.match(/^ */)[0]}${more}`);
}

function render({ model, el }) {
  const [topic, name, setup, blank, seconds, stopped] = ["topic", "name", "setup", "code", "seconds", "stopped"].map((key) => model.get(key));
  const saved = new Saved(topic, name);

  function open(text) {
    let tabLeaves = false; // after Escape, so that the keyboard is not trapped
    const help = h("p", { id: `keys-${name}` }, "Shift+Enter checks your answer. Tab indents; to leave the editor, press Escape, then Tab.");
    const editor = h("textarea", { "aria-label": `Your answer: ${name}`, "aria-describedby": help.id, spellcheck: "false", autocapitalize: "off", autocomplete: "off", oninput: change, onkeydown: press, onblur: () => { tabLeaves = false; } });
    const output = h("pre", { tabindex: "0", "aria-label": `Result of the check: ${name}`, role: "status" });
    const button = h("button", { type: "button", onclick: checkAnswer }, "Check");
    const again = h("button", { type: "button", onclick: startAgain }, "Start again");

    function fit() {
      editor.rows = editor.value.split("\n").length + 1;
    }
    function show(text, state = "") { // tables, which are indented, are not wrapped
      const lines = text ? `${text.trimEnd()}\n`.match(/.*\n/g) : [];
      output.replaceChildren(...lines.map((line) => h("span", { class: line.startsWith("  ") ? "" : "prose" }, line)));
      output.className = state;
    }
    function change() {
      fit();
      if (!button.disabled) show(""); // otherwise it shows what it is waiting for
      saved.set({ code: editor.value });
    }
    function startAgain() {
      editor.focus();
      type(editor, 0, editor.value.length, blank);
      saved.set(null);
    }
    function press(event) {
      const isPlain = !event.ctrlKey && !event.altKey && !event.metaKey;
      if (event.key === "Tab" && isPlain && !tabLeaves) indent(editor, event.shiftKey);
      else if (event.key === "Enter" && (event.shiftKey || event.ctrlKey)) checkAnswer();
      else if (event.key === "Enter" && isPlain && !event.isComposing) newLine(editor);
      else {
        tabLeaves = event.key === "Escape" || (tabLeaves && event.key === "Shift");
        return;
      }
      event.preventDefault();
    }
    async function checkAnswer() {
      if (button.disabled) return;
      button.disabled = again.disabled = true;
      try {
        show("Loading Python …");
        await start();
        show("Checking …");
        editor.readOnly = true;
        const code = editor.value;
        const { isRight, text } = (await check({ topic, setup, name, code }, seconds)) ?? { isRight: false, text: stopped };
        show(text, isRight ? "right" : "wrong");
        saved.set({ code, isRight });
      } catch (error) {
        show(`Python can't be used here: ${error.message}\nTry again, or solve the exercise in the notebook.`, "wrong");
      } finally {
        button.disabled = again.disabled = editor.readOnly = false;
      }
    }

    editor.value = text;
    editor.setSelectionRange(0, 0); // else the focus scrolls to the end of a long line
    fit();
    el.replaceChildren(h("style", {}, STYLE), h("div", { class: "exercise" }, editor, h("div", { class: "controls" }, button, again, help), output));
    if (saved.get()?.isRight) show(`✓ ${name}`, "right");
    return editor;
  }

  const answer = saved.get();
  if (answer) open(answer.code);
  else
    el.append(
      h("style", {}, STYLE),
      h("button", { type: "button", class: "try-it", "aria-label": `Try it here: ${name}`, onclick: () => { open(blank).focus(); start().catch(() => {}); } }, "Try it here"),
    );
}

export default { render };
