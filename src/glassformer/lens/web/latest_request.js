// One question under way, and behind it only the newest: what became old while waiting is never asked.

const BUSY = 503;
const PAUSE = 250; // milliseconds, before a busy server is asked again

// `work(question)` is waited for; `failed(error)` hears what it threw. A question that stands for several bears the times
// of all of them: `since`.
export function latestRequest(work, failed) {
  let waiting = null;
  let isBusy = false;

  async function next() {
    isBusy = true;
    while (waiting) {
      const question = waiting;
      waiting = null;
      try {
        await work(question);
      } catch (error) {
        if (error.status === BUSY) {
          await new Promise((done) => setTimeout(done, PAUSE));
          waiting = { ...(waiting ?? question), since: [...question.since, ...(waiting?.since ?? [])] };
        } else failed(error);
      }
    }
    isBusy = false;
  }

  return (question) => {
    waiting = { ...question, since: [...(waiting?.since ?? []), ...question.since] };
    if (!isBusy) next();
  };
}
