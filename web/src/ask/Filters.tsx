// Narrowing questions to spaces, labels, sources and kinds of pages.

import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n";
import { choices, filters, loadChoices, toggle, type FilterKey } from "../state/filters";
import { selection } from "../state/selection";
import { session } from "../state/session";
import { Button } from "../ui/Button";
import { Chip } from "../ui/Chip";
import { Dialog } from "../ui/Dialog";

interface Choice {
  value: string;
  count: number | null;
}

const KEYS: FilterKey[] = ["space", "labels", "source", "kind"];

/** Show the filters in force, each with a button that takes it away. */
export function ChosenFilters() {
  const chosen = KEYS.flatMap((key) => (filters.value[key] ?? []).map((value) => ({ key, value })));
  if (!chosen.length || selection.value) return null;
  return (
    <p class="chosen">
      {t("asked.in")}
      {chosen.map(({ key, value }) => (
        <Chip key={key + value} remove={t("filter.remove", { value })} onRemove={() => toggle(key, value)}>
          {value}
        </Chip>
      ))}
    </p>
  );
}

/** Show the button that opens the choices; nothing where there are none. */
export function FilterButton() {
  const [isOpen, setOpen] = useState(false);
  const { tenant, user } = session.value ?? {};
  useEffect(() => void loadChoices(), [tenant, user]);
  const groups = KEYS.map((key) => ({ key, list: choicesOf(key) })).filter(({ list }) => list.length > 1);
  if (!groups.length || selection.value) return null;
  return (
    <>
      <Button kind="quiet" icon="filter" label={t("filter")} aria-haspopup="dialog" onClick={() => setOpen(true)} />
      {isOpen && (
        <Dialog title={t("filter")} onClose={() => setOpen(false)}>
          <p class="faint">{t("filter.note")}</p>
          <div class="filters">
            {groups.map(({ key, list }) => (
              <fieldset key={key}>
                <legend>{t(`filter.${key}`)}</legend>
                <div class="filter-list">
                  {list.map(({ value, count }) => (
                    <label key={value} class="filter-choice">
                      <input
                        type="checkbox"
                        checked={filters.value[key]?.includes(value) ?? false}
                        onChange={() => toggle(key, value)}
                      />
                      <span dir="auto">{value}</span>
                      {count !== null && <span class="faint">{count}</span>}
                    </label>
                  ))}
                </div>
              </fieldset>
            ))}
          </div>
        </Dialog>
      )}
    </>
  );
}

function choicesOf(key: FilterKey): Choice[] {
  const { spaces = [], labels = [], sources = [], kinds = [] } = choices.value ?? {};
  const lists: Record<FilterKey, Choice[]> = {
    space: spaces.map(({ key: value, count }) => ({ value, count })),
    labels: labels.map(({ name: value, count }) => ({ value, count })),
    source: sources.map(({ key: value }) => ({ value, count: null })),
    kind: kinds.map(({ kind: value, count }) => ({ value, count })),
  };
  return lists[key];
}
